"""A job with three regions and transactional sinks, hurt in every way by chance, and recounted."""
