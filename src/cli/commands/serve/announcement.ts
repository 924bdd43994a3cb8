import { maxSampleRevision } from '../../../sample/writing.ts';
import type { Service } from '../../../service/start-service.ts';
import { formatDuration } from '../../../settings/parse-unit.ts';
import { shellWord } from '../../environment.ts';
import { type ChosenApplication, defaultDataFolder } from './choose-application.ts';
import { type ServeChoices, configLines, servedWorkspace } from './serve-flags.ts';

/** What a person who has just started the service wants to know. `data`: as it was written. */
export function announcement(
  service: Pick<Service, 'url' | 'connectors'>,
  choices: Pick<ServeChoices, 'revision' | 'service'>,
  data: string,
  application: ChosenApplication,
  program: string,
): readonly string[] {
  const { revision } = choices;
  return [
    `Serving the Connector Execution API at ${service.url}`,
    `  reference:   ${service.url}/docs`,
    `  OpenAPI:     ${service.url}/openapi.json`,
    `  workspace:   ${servedWorkspace}`,
    `  connectors:  ${connectorsText(service.connectors)} (revision ${revision})`,
    `  new ones:    ${newOnesText(choices)}`,
    `  data:        ${data}`,
    `  search:      ${indexText(choices)}`,
    ...credentialsText(application, data, program),
    '',
    'A config for it:',
    '  api:',
    `    baseUrl: ${service.url}`,
    `    clientId: ${JSON.stringify(application.clientId)}`,
    '    clientSecret: "${CONNECTOR_API_CLIENT_SECRET}"',
    '  sinks: { main: { type: sqlite, path: ./data/sample.db } }',
    '  connectors:',
    ...configLines(),
    '',
    ...(revision < maxSampleRevision
      ? [
          `Ctrl-C stops it. --revision ${revision + 1} serves the accounts a day later: some records new, changed or deleted.`,
        ]
      : ['Ctrl-C stops it.']),
  ];
}

const shown = 8;

function connectorsText(ids: readonly string[]): string {
  const more = ids.length - shown;
  return [...ids.slice(0, shown), ...(more > 0 ? [`and ${more} more`] : [])].join(', ');
}

function newOnesText({ service: { upstream } }: Pick<ServeChoices, 'service'>): string {
  return upstream === null
    ? 'sample data, whatever their credentials (--samples)'
    : 'the real service; sample data if a secret starts with "sample"';
}

function indexText({ service: { isIndexed, refreshEveryMs } }: Pick<ServeChoices, 'service'>): string {
  return isIndexed ? `indexed stores, refreshed every ${formatDuration(refreshEveryMs)}` : 'off (--no-index)';
}

function credentialsText(application: ChosenApplication, data: string, program: string): readonly string[] {
  switch (application.kind) {
    case 'given':
      return ['  credentials: from CONNECTOR_SYNC_CLIENT_ID and CONNECTOR_SYNC_CLIENT_SECRET'];
    case 'made-up':
      return [
        '  credentials: generated now; the secret is shown this once:',
        `    client id      ${application.clientId}`,
        `    client secret  ${application.clientSecret.reveal()}`,
      ];
    case 'there':
      return [
        `  credentials: client id ${application.clientId}; its secret was shown once, when it was created.`,
        '    Lost it? Make another one:',
        `    ${program} applications create${data === defaultDataFolder ? '' : ` --data ${shellWord(data)}`}`,
      ];
  }
}
