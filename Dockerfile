# docs/operations/install.md says how to run it.
FROM node:24-slim AS build
WORKDIR /app
COPY package.json package-lock.json ./
RUN npm ci --ignore-scripts
COPY src ./src
COPY config/definitions ./config/definitions
# No install script is needed: better-sqlite3 13, which the lockfile names, brings its binaries.
# Without the development dependencies in package.json nothing of them stays: with `--omit=dev` TypeScript would, because a dependency can use it.
RUN npm run build && chmod +x dist/main.js \
  && npm pkg delete devDependencies && npm prune --ignore-scripts

FROM node:24-slim
LABEL org.opencontainers.image.title="connector-sync" \
  org.opencontainers.image.description="Keeps a local, query-ready copy of everything behind a Connector Execution API" \
  org.opencontainers.image.licenses="Apache-2.0"
# A new volume takes over owner and mode of the folder it is mounted on.
RUN apt-get update \
  && apt-get install -y --no-install-recommends tini \
  && rm -rf /var/lib/apt/lists/* \
  && install -d -o node -g node -m 0700 /data \
  && ln -s /app/dist/main.js /usr/local/bin/connector-sync
WORKDIR /app
COPY --from=build /app/package.json ./
COPY --from=build /app/node_modules ./node_modules
COPY --from=build /app/dist ./dist
COPY config/definitions ./config/definitions
ENV NODE_ENV=production CONNECTOR_SYNC_CONFIG=/config/connector-sync.yaml
# Nothing else is written, so that the rest may be read-only.
VOLUME /data
USER node
EXPOSE 9400
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=30s --timeout=5s --start-period=30s --retries=3 \
  CMD ["node", "-e", "fetch('http://127.0.0.1:9400/healthz').then((answer) => process.exit(answer.ok ? 0 : 1), () => process.exit(1))"]
ENTRYPOINT ["tini", "--", "node", "dist/main.js"]
CMD ["worker", "--http", ":9400"]
