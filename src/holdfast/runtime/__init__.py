"""What runs a job: regions, channels, gates, coordinator. The only place with threads."""
