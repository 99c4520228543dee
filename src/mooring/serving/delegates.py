"""Builds the authenticator and the authorizer from the options: what needs the cluster.

Source: k8s.io/apiserver pkg/server/options (authentication.go, authorization.go: ApplyTo).
"""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from typing import Final

from mooring.client.transport.auth import connect
from mooring.client.transport.http import HttpTransport
from mooring.client.transport.kubeconfig import in_cluster, read_kubeconfig
from mooring.client.transport.transport import Transport
from mooring.clock import Clock, Rng
from mooring.errors import ConfigError, Forbidden, SchedulerError
from mooring.objects.go_text import error_text
from mooring.serving.authentication import (
    TOKEN_REVIEW_PATH,
    Authenticator,
    FrontProxy,
    TokenReviewer,
)
from mooring.serving.authorization import (
    ACCESS_REVIEW_PATH,
    AccessReviewer,
    AllowedPaths,
    Authorizer,
)
from mooring.serving.client_ca import Authority, AuthorityFile
from mooring.serving.cluster_authentication import (
    NAME,
    NAMESPACE,
    ClusterAuthentication,
    RequestHeaders,
)
from mooring.serving.delegation import Reviews
from mooring.serving.observer import ServingObserver
from mooring.serving.options import ServingOptions

_ROLE: Final = "extension-apiserver-authentication-reader"

_log = logging.getLogger(__name__)


def delegated_transport(
    kubeconfig: str, purpose: str, *, clock: Clock, environment: Mapping[str, str]
) -> HttpTransport | None:
    """Returns the way to the API server for ``--authentication-kubeconfig`` or its sister.

    Args:
        kubeconfig: The flag's value; "" = the service account of this pod, None if it is no pod.
        purpose: "authentication" or "authorization", for the error.
        clock: See ``connect``.
        environment: See ``connect``.

    Raises:
        ConfigError: the file cannot be used.
    """
    problem = f"failed to get delegated {purpose} kubeconfig"
    if purpose == "authentication":
        problem = f"{problem}: {problem}"  # sic
    try:
        if kubeconfig:
            os.stat(kubeconfig)
            access = read_kubeconfig([kubeconfig])
        elif environment.get("KUBERNETES_SERVICE_HOST"):
            access = in_cluster(environment)
        else:
            return None
        return connect(access, clock=clock, environment=environment)
    except OSError as error:
        raise ConfigError(f"{problem}: stat {kubeconfig}: {error_text(error)}") from error
    except ConfigError as error:
        raise ConfigError(f"{problem}: {error}") from error


class Delegates:
    """The authenticator and the authorizer of a server.

    Attributes:
        authenticator: See ``Authenticator``.
        authorizer: See ``Authorizer``.
        cluster: What the cluster publishes, to be kept current by its ``run``; None = not used.
    """

    def __init__(
        self,
        options: ServingOptions,
        *,
        authentication: Transport | None,
        authorization: Transport | None,
        clock: Clock,
        rng: Rng,
        observer: ServingObserver,
    ) -> None:
        self.cluster: ClusterAuthentication | None = None
        self._options = options
        self._transport = authentication
        if authentication is not None:
            needs_cluster = not (options.client_ca_file and options.requestheader_client_ca_file)
            if needs_cluster and not options.authentication_skip_lookup:
                self.cluster = ClusterAuthentication(authentication, clock=clock, rng=rng)
        client_ca = self._client_ca()
        self.authenticator = Authenticator(
            clock,
            front_proxy=self._front_proxy(),
            client_ca=client_ca,
            tokens=_tokens(options, authentication, clock, rng, observer),
        )
        self.authorizer = _authorizer(options, authorization, clock, rng, observer)

    async def look_up(self) -> None:
        """Reads the authorities that the cluster publishes.

        Raises:
            ConfigError: they cannot be read, and that is not tolerated.
        """
        if self.cluster is None:
            return
        try:
            await self.cluster.load()
        except SchedulerError as error:
            if isinstance(error, Forbidden):
                _log.warning(
                    f"Unable to get configmap/{NAME} in {NAMESPACE}.  Usually fixed by "
                    f"'kubectl create rolebinding -n {NAMESPACE} ROLEBINDING_NAME --role={_ROLE} "
                    "--serviceaccount=YOUR_NS:YOUR_SA'"
                )
            is_needed = not self._options.requestheader_client_ca_file
            if is_needed and not self._options.authentication_tolerate_lookup_failure:
                raise ConfigError(
                    f"unable to load configmap based request-header-client-ca-file: {error}"
                ) from error
            _log.warning(f"Error looking up in-cluster authentication configuration: {error}")
            _log.warning(
                "Continuing without authentication configuration. "
                "This may treat all requests as anonymous."
            )
            _log.warning(
                "To require authentication configuration lookup to succeed, "
                "set --authentication-tolerate-lookup-failure=false"
            )

    def _client_ca(self) -> Callable[[], Authority | None] | None:
        path = self._options.client_ca_file
        if path:
            try:
                return AuthorityFile(path, name="client-ca-bundle").current
            except ConfigError as error:
                raise ConfigError(f"unable to load client CA provider: {error}") from error
        cluster = self.cluster
        if cluster is not None:
            return lambda: cluster.client_ca
        self._warn_without_client("client-ca-file", "client certificate authentication")
        return None

    def _front_proxy(self) -> FrontProxy | None:
        options = self._options
        if options.requestheader_client_ca_file:
            try:
                file = AuthorityFile(options.requestheader_client_ca_file, name="request-header")
            except ConfigError as error:
                problem = "unable to create request header authentication config"
                raise ConfigError(f"{problem}: {error}") from error
            headers = RequestHeaders(
                username=options.requestheader_username_headers,
                uid=options.requestheader_uid_headers,
                group=options.requestheader_group_headers,
                extra_prefixes=options.requestheader_extra_headers_prefix,
                allowed_names=options.requestheader_allowed_names,
            )
            return FrontProxy(file.current, lambda: headers)
        cluster = self.cluster
        if cluster is not None:
            return FrontProxy(lambda: cluster.proxy_ca, lambda: cluster.headers)
        self._warn_without_client(
            "requestheader-client-ca-file", "request-header client certificate authentication"
        )
        return None

    def _warn_without_client(self, key: str, method: str) -> None:
        if self._transport is None and not self._options.authentication_skip_lookup:
            _log.warning(
                f"No authentication-kubeconfig provided in order to lookup {key} in "
                f"configmap/{NAME} in {NAMESPACE}, so {method} won't work."
            )


def _tokens(
    options: ServingOptions,
    transport: Transport | None,
    clock: Clock,
    rng: Rng,
    observer: ServingObserver,
) -> TokenReviewer | None:
    if transport is None:
        return None
    reviews = Reviews(
        transport, TOKEN_REVIEW_PATH, clock=clock, rng=rng, observer=observer.token_review
    )
    return TokenReviewer(reviews, clock, options.token_cache_ttl_s, observer=observer)


def _authorizer(
    options: ServingOptions,
    transport: Transport | None,
    clock: Clock,
    rng: Rng,
    observer: ServingObserver,
) -> Authorizer:
    paths = AllowedPaths(options.always_allow_paths)
    if transport is None:
        _log.warning(
            "No authorization-kubeconfig provided, "
            "so SubjectAccessReview of authorization tokens won't work."
        )
        return Authorizer(paths, None)
    reviews = Reviews(
        transport, ACCESS_REVIEW_PATH, clock=clock, rng=rng, observer=observer.access_review
    )
    reviewer = AccessReviewer(
        reviews,
        clock,
        allowed_ttl_s=options.authorized_ttl_s,
        refused_ttl_s=options.unauthorized_ttl_s,
    )
    return Authorizer(paths, reviewer)
