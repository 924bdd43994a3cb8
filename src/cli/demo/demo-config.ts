import type { ServedAccount } from '../commands/serve/serve-samples.ts';

/** Where the demo's records came from, whatever port it was this time: else a second run would meet another identity. */
export const demoBaseUrl = 'demo';
export const demoDatabase = 'demo.db';

/** Environment through which the demo's own config gets what changes from run to run. */
export const demoVariables = {
  url: 'CONNECTOR_SYNC_DEMO_URL',
  secret: 'CONNECTOR_SYNC_DEMO_SECRET',
} as const;

/** `revision`: how many days have changed the accounts. */
export function demoAccounts(revision: number): readonly ServedAccount[] {
  return [
    {
      connectorId: 'demo-newsletter',
      workspace: 'demo',
      definitionName: 'email-marketing',
      seed: 1,
      size: 'small',
      revision,
    },
    {
      connectorId: 'demo-wiki',
      workspace: 'demo',
      definitionName: 'workspace-notes',
      seed: 1,
      size: 'small',
      revision,
    },
  ];
}

export interface DemoSchedule {
  /** As a config file has it: six fields, seconds first. */
  readonly cron: string;
  /** Begins every key in Redis. */
  readonly prefix: string;
}

/** Limits are high because nobody else uses the local service. Without a schedule the file names no Redis. */
export function demoConfigText(schedule: DemoSchedule | null): string {
  const redis =
    schedule === null
      ? ''
      : `redis: { url: "\${REDIS_URL:-redis://127.0.0.1:6379}", prefix: ${schedule.prefix} }\n`;
  const when = schedule === null ? '' : `    schedule: { cron: "${schedule.cron}" }\n`;
  return `# Written by "connector-sync demo". The service it reads from lives only while the demo runs:
# use this file with status, runs, check --help and the like, and sync with "connector-sync demo".
api:
  baseUrl: "\${${demoVariables.url}:-http://127.0.0.1:8787}"
  clientId: demo
  clientSecret: "\${${demoVariables.secret}:-not-running}"
${redis}sinks:
  demo: { type: sqlite, path: ./${demoDatabase}, durability: normal }
connectors:
  newsletter:
    definition: email-marketing
    id: demo-newsletter
    sink: demo
${when}    concurrency: 8
    rateLimit: { requestsPerSecond: 1000 }
  wiki:
    definition: workspace-notes
    id: demo-wiki
    sink: demo
${when}    concurrency: 8
    rateLimit: { requestsPerSecond: 1000 }
`;
}
