# The study in a box: `docker build -t ablations .`, then
#   docker run --rm -v "$PWD/results:/study/results" -v "$PWD/reports:/study/reports" ablations
FROM python:3.11-slim

# git: DVC and provenance ask it; make: the commands; the compiler is not needed
# hadolint ignore=DL3008
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git make \
    && rm -rf /var/lib/apt/lists/*

RUN useradd --create-home --uid 1000 reader \
    && mkdir /study \
    && chown reader /study
USER 1000
WORKDIR /study

COPY --chown=reader requirements.lock pyproject.toml README.md LICENSE Makefile ./
COPY --chown=reader src ./src
RUN make setup

COPY --chown=reader . .
CMD ["make", "study"]
