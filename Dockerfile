# neardup for the service and for batch jobs, with all kernels compiled: docs/docker.md.
#
#   docker build --tag neardup .                             the service
#   docker build --tag neardup-batch --target batch .        any other command
ARG PYTHON=3.13

FROM python:${PYTHON}-slim AS build
# Kernels are machine code. They are compiled for a kind of processor, not for the one that happens to build
# the image: x86-64-v3 is Intel since 2013 and AMD since 2015; use generic for others, such as ARM.
ARG CPU=x86-64-v3
ENV NUMBA_CPU_NAME=${CPU} \
    NUMBA_CPU_FEATURES="" \
    XDG_CACHE_HOME=/opt/neardup/cache \
    PATH=/opt/neardup/bin:$PATH
WORKDIR /src
COPY pyproject.toml README.md LICENSE NOTICE ./
COPY src src
# Numba compares the times of source files to the nanosecond; layers of an image keep whole seconds.
# The versions are the ranges of pyproject.toml.
# hadolint ignore=DL3013
RUN python -m venv /opt/neardup \
    && pip install --no-cache-dir ".[html,serve]" \
    && find /opt/neardup/lib -path '*/neardup/kernels/*.py' -exec touch --date=@1700000000 {} + \
    && neardup warm-up

FROM python:${PYTHON}-slim AS batch
ARG CPU=x86-64-v3
ENV NUMBA_CPU_NAME=${CPU} \
    NUMBA_CPU_FEATURES="" \
    XDG_CACHE_HOME=/opt/neardup/cache \
    PATH=/opt/neardup/bin:$PATH
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
