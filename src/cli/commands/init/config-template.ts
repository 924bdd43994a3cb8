export interface ConfigChoices {
  /** Null: read from $CONNECTOR_API_URL. */
  readonly baseUrl: string | null;
  readonly workspace: string;
  readonly sink: 'sqlite' | 'jsonl';
  /** Relative to the config file. */
  readonly dataFolder: string;
}

/** A config file with a connector of each built-in definition that hosted services have; texts are written as JSON, which YAML reads. */
export function configText(choices: ConfigChoices): string {
  const sink =
    choices.sink === 'sqlite'
      ? `{ type: sqlite, path: ${pathText(choices.dataFolder, 'warehouse.db')} }`
      : `{ type: jsonl, directory: ${pathText(choices.dataFolder, 'lake')} }`;
  const rate = isLoopback(choices.baseUrl)
    ? '    rateLimit: { requestsPerSecond: 500 } # sample data needs no limit\n'
    : '';
  return `# Paths are relative to this file. "connector-sync config schema" prints the format.
api:
  baseUrl: ${JSON.stringify(choices.baseUrl ?? '${CONNECTOR_API_URL}')}
  clientId: "\${CONNECTOR_API_CLIENT_ID}"
  clientSecret: "\${CONNECTOR_API_CLIENT_SECRET}" # or "\${file:./secret}", a file that only you can read

sinks:
  main: ${sink}

# redis: { url: "\${REDIS_URL}" } # for "connector-sync worker"; without it redis://127.0.0.1:6379

connectors:
  newsletter:
    definition: email-marketing
    workspace: ${JSON.stringify(choices.workspace)} # or id: "...", where a workspace has several
    sink: main
    schedule: { every: 30m }
${rate}
  wiki:
    definition: workspace-notes
    workspace: ${JSON.stringify(choices.workspace)}
    sink: main
    schedule: { every: 1h }
${rate}
  # library:
  #   definition: document-library
  #   workspace: ${JSON.stringify(choices.workspace)}
  #   sink: main
  #   downloads: { directory: ${pathText(choices.dataFolder, 'files')} } # the files of its records
`;
}

/** The definitions' rates are those of the services behind a hosted API; sample data behind a local one needs none. */
function isLoopback(baseUrl: string | null): boolean {
  return baseUrl !== null && ['127.0.0.1', '[::1]', 'localhost'].includes(new URL(baseUrl).hostname);
}

function pathText(folder: string, name: string): string {
  const path = folder.startsWith('..')
    ? `${folder}/${name}`
    : `./${folder === '' ? '' : `${folder}/`}${name}`;
  return /^[\w./-]+$/.test(path) ? path : JSON.stringify(path);
}

/** The lines of a \`.env\` that the config above needs. */
export function environmentText(choices: ConfigChoices): string {
  return [
    ...(choices.baseUrl === null ? ['CONNECTOR_API_URL=https://...'] : []),
    'CONNECTOR_API_CLIENT_ID=...',
    'CONNECTOR_API_CLIENT_SECRET=...',
  ].join('\n');
}
