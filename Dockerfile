# tallyguard as an image: exact, hash-checked versions, kernels compiled, an unprivileged user, no secret.
# Linux x86-64 only, as are the wheels of faust-streaming. `make rehearsal` builds it and runs it.
ARG PYTHON_IMAGE=python:3.11.14-slim-bookworm

FROM ${PYTHON_IMAGE} AS build
# binutils has strip; libgomp is numba's thread pool that several threads may use at once. Debian keeps only its
# newest version.
# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends binutils libgomp1 \
 && rm -rf /var/lib/apt/lists/*
WORKDIR /source
RUN python -m venv /opt/tallyguard
ENV PATH=/opt/tallyguard/bin:$PATH
# Dependencies before sources: a change of the code leaves this layer as it is.
COPY requirements.lock ./
RUN pip install --no-cache-dir --no-compile --disable-pip-version-check --require-hashes -r requirements.lock
COPY pyproject.toml README.md LICENSE ./
COPY models models
COPY accounting accounting
COPY stream_app stream_app
COPY tallyguard tallyguard
RUN pip install --no-cache-dir --no-compile --disable-pip-version-check --no-deps --no-build-isolation .

# What no command uses goes: the libraries' own tests, headers and stubs, Arrow's transports and second copies of its
# libraries, symbol tables, and at last the installer.
WORKDIR /opt/tallyguard/lib/python3.11/site-packages
RUN find . -depth -type d \( -name tests -o -name include \) -exec rm -r {} + \
 && find . -name "*.pyi" -delete \
 && rm -f pyarrow/*flight* pyarrow/*_s3* pyarrow/libarrow_python*.so pyarrow/libarrow_python*.so.*.*.* \
 && strip --strip-unneeded llvmlite/binding/libllvmlite.so pyarrow/*.so* zstandard/*.so aiohttp/*.so \
 && pip uninstall --yes --quiet setuptools pip

# Kernels are compiled for x86-64-v3 (AVX2: every server since 2015), as on every machine, so that those in the image
# serve everywhere. Python writes bytecode of what is imported meanwhile, and of all our own modules.
ENV NUMBA_CACHE_DIR=/var/cache/tallyguard \
    NUMBA_THREADING_LAYER=omp
RUN python -m compileall -q models accounting stream_app tallyguard \
 && python -m stream_app.starting.warm_up \
 && python -m stream_app.kafka.warm_up


FROM ${PYTHON_IMAGE} AS runtime
ARG VERSION=0.1.0
LABEL org.opencontainers.image.title="tallyguard" \
      org.opencontainers.image.description="Publishes people counts and accounts every person's reconstruction risk" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="${VERSION}"

# hadolint ignore=DL3008
RUN apt-get update \
 && apt-get install --yes --no-install-recommends libgomp1 \
 && rm -rf /var/cache/apt/* /var/lib/apt/lists/* \
 && groupadd --gid 10001 tallyguard \
 && useradd --uid 10001 --gid 10001 --no-create-home --home-dir /nonexistent --shell /usr/sbin/nologin tallyguard \
 && install --directory --owner=tallyguard --group=tallyguard /var/cache/tallyguard \
    /kernels/topics /kernels/persons /kernels/release /kernels/account /kernels/producer

COPY --from=build /opt/tallyguard /opt/tallyguard
# Workers may write there: after a change of the code kernels are compiled again and kept in their own volume.
COPY --from=build --chown=10001:10001 /var/cache/tallyguard /var/cache/tallyguard

ENV PATH=/opt/tallyguard/bin:$PATH \
    PYTHONUNBUFFERED=1 \
    PYTHONDONTWRITEBYTECODE=1 \
    NUMBA_CACHE_DIR=/var/cache/tallyguard \
    NUMBA_THREADING_LAYER=omp \
    TALLYGUARD_LISTEN=0.0.0.0:9464

USER 10001:10001
WORKDIR /opt/tallyguard

EXPOSE 9464
# A minute or two to compile where the image's kernels do not fit; the page answers before that.
HEALTHCHECK --interval=15s --timeout=5s --start-period=180s --retries=4 \
    CMD ["python", "-c", "import urllib.request as web; web.urlopen('http://127.0.0.1:9464/-/healthy', timeout=4)"]
ENTRYPOINT ["tallyguard"]
CMD ["--help"]
