"""Proxies and certificates as the environment names them."""

from __future__ import annotations

import pytest

from vibe_gate.domain.network import read_network

BOTH = {"http": "http://p:1", "https": "http://p:1"}


@pytest.mark.parametrize(
    ("environ", "expected"),
    [
        ({}, {}),
        ({"https_proxy": "http://p:1"}, {"https": "http://p:1"}),
        ({"HTTP_PROXY": "http://p:1"}, {"http": "http://p:1"}),
        ({"ALL_PROXY": "http://p:1"}, BOTH),
        ({"ALL_PROXY": "http://p:1", "HTTPS_PROXY": ""}, BOTH),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "other.org, .example.com"}, {}),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "*.example.com:443"}, {}),
        ({"ALL_PROXY": "http://p:1", "no_proxy": "api.example.com"}, {}),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "*"}, {}),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": "ample.com"}, BOTH),
        ({"ALL_PROXY": "http://p:1", "NO_PROXY": ""}, BOTH),
    ],
)
def test_the_environment_says_which_proxy_stands_before_a_server(environ, expected):
    assert read_network(environ).proxies_for("https://api.example.com/v1") == expected


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1:8080", "[::1]:8080"])
def test_this_machine_is_reached_without_a_proxy(host):
    network = read_network({"ALL_PROXY": "http://p:1"})
    assert network.proxies_for(f"http://{host}/") == {}
