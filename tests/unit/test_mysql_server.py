"""Addresses of MariaDB and MySQL servers, names of transactions, and the sink's arguments."""

from __future__ import annotations

import pickle

import pytest

from holdfast.errors import HoldfastError, UsageError
from holdfast.sinks.mysql.server import MySqlServer, MySqlUnavailable, server
from holdfast.sinks.mysql.sink import MySqlSink, mysql
from holdfast.sinks.mysql.upserts import MySqlUpserts
from holdfast.sinks.mysql.xa import Xid, owner, xid
from holdfast.sinks.two_phase import Part

JOB = "0123456789abcdef" * 2
URL = "mysql://me:secret@db/shop"


def test_an_address_has_user_password_host_port_and_database() -> None:
    found = server("mariadb://a%40b:p%2Fw%C3%B6@[::1]:3307/my%20shop?ssl_ca=/x&connect_timeout=5")
    assert found == MySqlServer(
        "::1", 3307, "a@b", "p/wö", "my shop", {"ssl_ca": "/x", "connect_timeout": 5}
    )
    assert server("mysql://me@db").port == 3306
    assert server("mysql://me@db").database is None


@pytest.mark.parametrize(
    "url",
    [
        "postgres://me:secret@db/x",
        "mysql://db/secret",
        "mysql://me:secret@/x",
        "mysql://me:secret@db:port/x",
        "mysql://me:secret@db/x?charset=latin1",
        "mysql://me:secret@db/x?autocommit=secret",
        "mysql://me:secret@db/x?read_timeout=-3",
        "mysql://me:secret@db/x?ssl=perhaps",
    ],
)
def test_a_wrong_address_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(UsageError) as told:
        server(url)
    assert "secret" not in str(told.value)


def test_encryption_can_be_demanded() -> None:
    assert server(f"{URL}?ssl=true").options["ssl"]
    assert not server(f"{URL}?ssl=false").options["ssl"]


def test_the_password_is_not_shown() -> None:
    sink = mysql(URL, "t")
    assert isinstance(sink, MySqlSink)
    assert "secret" not in f"{sink!r} {sink.server!r} {sink.server}"
    upserts = mysql(URL, "t", key="k", delivery="idempotent")
    assert "secret" not in repr(upserts)


def test_a_server_that_is_not_there_can_be_tried_again() -> None:
    sink = mysql("mysql://me@127.0.0.1:1/shop", "t")
    assert isinstance(sink, MySqlSink)
    with pytest.raises(MySqlUnavailable) as told:
        sink.commit({"owner": "a", "part": "1_0_x", "checkpoint": 1})
    assert told.value.retryable
    assert isinstance(pickle.loads(pickle.dumps(told.value)), MySqlUnavailable)


def test_names_of_transactions_keep_to_the_limits() -> None:
    long = Part(JOB, "ü" * 500, 2**63, 2**31, "f" * 8)
    name = xid(long)
    assert len(name.owner.encode()) <= 64
    assert len(name.part.encode()) <= 64
    assert name.checkpoint == 2**63
    assert name.owner.isascii()


def test_names_of_transactions_tell_jobs_sinks_and_tries_apart() -> None:
    names = {
        xid(Part(job, sink, 1, number, token))
        for job in (JOB, JOB[::-1])
        for sink in ("a", "b", "a_b")
        for number in (1, 11)
        for token in ("x", "y")
    }
    assert len(names) == 24
    assert owner(JOB, "a") != owner(JOB, "b")


@pytest.mark.parametrize("part", ["", "x_1_y", "1_2", "1_2_3_4", "-1_2_3"])
def test_names_that_are_not_ours_have_no_checkpoint(part: str) -> None:
    assert Xid("someone", part).checkpoint is None


def test_one_transaction_for_an_epoch_unless_more_are_wanted() -> None:
    one, more = mysql(URL, "t"), mysql(URL, "t", parallelism=4)
    assert isinstance(one, MySqlSink)
    assert isinstance(more, MySqlSink)
    assert (one.parallelism, more.parallelism) == (1, 4)


def test_a_table_is_looked_for_in_the_database_of_the_address() -> None:
    one, other = mysql(URL, "t"), mysql(URL, "there.t")
    assert isinstance(one, MySqlSink)
    assert isinstance(other, MySqlSink)
    assert (one.table.name, other.table.name) == (("shop", "t"), ("there", "t"))


@pytest.mark.parametrize(
    "arguments",
    [
        {"url": "mysql://me@db", "table": "t"},
        {"url": URL, "table": "a.b.c"},
        {"url": URL, "table": "t", "parallelism": 0},
        {"url": URL, "table": "t", "delivery": "idempotent"},
        {"url": URL, "table": "t", "key": "k", "delivery": "sometimes"},
    ],
)
def test_arguments_that_make_no_sense_are_refused(arguments: dict[str, object]) -> None:
    with pytest.raises(HoldfastError):
        mysql(**arguments)  # type: ignore[arg-type]


def test_idempotent_delivery_is_a_sink_of_its_own() -> None:
    sink = mysql(URL, "t", key=("a", "b"), delivery="idempotent", parallelism=3, create=True)
    assert isinstance(sink, MySqlUpserts)
    assert (sink.table.key, sink.parallelism, sink.create) == (("a", "b"), 3, True)
