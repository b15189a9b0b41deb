# neardup for the service and for batch jobs, with all kernels compiled: docs/docker.md.
#
#   docker build --tag neardup .                             the service
#   docker build --tag neardup-batch --target batch .        any other command
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
# Kernels are machine code, compiled for levels of processors; the running one chooses. On ARM: generic.
ARG LEVELS="x86-64-v2 x86-64-v3 x86-64-v4"
ENV NEARDUP_LEVELS=${LEVELS} \
    PATH=/opt/neardup/bin:$PATH
# hadolint ignore=DL3008
RUN apt-get update && apt-get install -y --no-install-recommends gcc libc6-dev
WORKDIR /src
COPY pyproject.toml hatch_build.py README.md LICENSE NOTICE ./
COPY src src
# The versions are the ranges of pyproject.toml.
# hadolint ignore=DL3013
RUN python -m venv /opt/neardup && pip install --no-cache-dir ".[html,redis,serve]"

FROM python:${PYTHON}-slim AS batch
ENV PATH=/opt/neardup/bin:$PATH
RUN useradd --system --uid 10001 --home-dir /data --shell /usr/sbin/nologin neardup \
    && install --directory --owner neardup --group neardup --mode 0700 /data
COPY --from=build --chown=neardup:neardup /opt/neardup /opt/neardup
USER 10001
WORKDIR /data
ENTRYPOINT ["neardup"]
CMD ["--help"]

FROM batch AS service
EXPOSE 8080
VOLUME /data
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=3s --start-period=60s \
    CMD ["python", "-c", "import urllib.request; urllib.request.urlopen('http://127.0.0.1:8080/healthz', timeout=2)"]
CMD ["serve", "--data", "/data", "--host", "0.0.0.0", "--port", "8080"]
