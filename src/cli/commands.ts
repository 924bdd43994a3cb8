import type { AddCommand } from './command.ts';

/** One word after the program's name: the line that `--help` shows, and where the rest of it is. */
interface CommandEntry {
  readonly name: string;
  readonly description: string;
  /**
   * Gives the command its arguments, options and action. Its modules are loaded here, and only for the command that was
   * asked for.
   */
  readonly load: () => Promise<AddCommand>;
}

/** In the order of `--help`. */
const byName: Readonly<Record<string, Omit<CommandEntry, 'name'>>> = {
  demo: {
    description: 'Try it without an account: a local API with sample data, a sync, a database.',
    load: async () => (await import('./demo/demo.ts')).demo,
  },
  init: {
    description: 'Write a config file to start from; never overwrites one.',
    load: async () => (await import('./commands/init.ts')).init,
  },
  check: {
    description:
      'Check config, definitions, credentials, connectors, sinks, disk, targets and Redis: one line each.',
    load: async () => (await import('./commands/check.ts')).check,
  },
  discover: {
    description:
      'List the connectors behind the API; or the entities, fields, parents and parameters of one.',
    load: async () => (await import('./commands/discover.ts')).discover,
  },
  definitions: {
    description: 'List the connector types that the API offers, and which of them this program can sync.',
    load: async () => (await import('./commands/definitions.ts')).definitions,
  },
  connectors: {
    description: 'List, create and delete connectors behind the API.',
    load: async () => (await import('./commands/connectors.ts')).connectors,
  },
  workspaces: {
    description: 'List the workspaces of the organization.',
    load: async () => (await import('./commands/connectors.ts')).workspaces,
  },
  sync: {
    description: 'Read connectors into their sinks, resuming from the last run.',
    load: async () => (await import('./commands/sync.ts')).sync,
  },
  status: {
    description: 'Show what is stored, when it was last read completely, the last run, failures, quarantine.',
    load: async () => (await import('./commands/status.ts')).status,
  },
  runs: {
    description: 'List runs, newest first; or show the report of one.',
    load: async () => (await import('./commands/runs.ts')).runs,
  },
  explain: {
    description:
      'Show the history of one record: when it was stored, by which run, and why the last sync read it or not.',
    load: async () => (await import('./commands/explain.ts')).explain,
  },
  audit: {
    description: 'Read an entity in full and list how the stored rows differ from it; changes nothing.',
    load: async () => (await import('./commands/audit.ts')).audit,
  },
  export: {
    description: 'Write the stored changes after a number, deletes included, as JSON lines or CSV.',
    load: async () => (await import('./commands/export.ts')).exportChanges,
  },
  publish: {
    description: 'Publish changes to files, buckets or databases for a warehouse, atomically.',
    load: async () => (await import('./commands/publish.ts')).publish,
  },
  backfill: {
    description: 'Read history in windows of time, newest first; leaves sync cursors unchanged.',
    load: async () => (await import('./commands/backfill.ts')).backfill,
  },
  refetch: {
    description: 'Read one record again and store it.',
    load: async () => (await import('./commands/refetch.ts')).refetch,
  },
  adopt: {
    description: 'Accept a changed address or connector id, after comparing a sample; deletes nothing.',
    load: async () => (await import('./commands/adopt.ts')).adopt,
  },
  reset: {
    description: 'Discard the saved progress of an entity or a whole connector; with --data its records too.',
    load: async () => (await import('./commands/reset.ts')).reset,
  },
  copy: {
    description: 'Move connectors from one sink into another, with their whole state; reads nothing again.',
    load: async () => (await import('./commands/copy.ts')).copy,
  },
  undelete: {
    description: 'Take back the deletes of one run.',
    load: async () => (await import('./commands/runs.ts')).undelete,
  },
  cancel: {
    description: 'Stop a run at its next page, in whatever process it is.',
    load: async () => (await import('./commands/runs.ts')).cancel,
  },
  list: {
    description: 'Print one live page of an entity, a record per line as JSON.',
    load: async () => (await import('./commands/read-records.ts')).list,
  },
  get: {
    description: 'Print one live record as JSON.',
    load: async () => (await import('./commands/read-records.ts')).get,
  },
  download: {
    description: 'Download one file of a record to a file or to standard output.',
    load: async () => (await import('./commands/download.ts')).download,
  },
  search: {
    description: "Find stored records by a filter; with --remote, those of the API's indexed store.",
    load: async () => (await import('./commands/search.ts')).search,
  },
  serve: {
    description: 'Serve the Connector Execution API on this machine, with sample data.',
    load: async () => (await import('./commands/serve.ts')).serve,
  },
  applications: {
    description: 'Manage the clients of the API that "connector-sync serve" serves: client ids and secrets.',
    load: async () => (await import('./commands/applications.ts')).applications,
  },
  worker: {
    description:
      'Sync connectors on their schedules until stopped; needs Redis. Logs to stderr, see LOG_LEVEL.',
    load: async () => (await import('./commands/worker.ts')).worker,
  },
  schedule: {
    description: 'Show, pause and start scheduled runs.',
    load: async () => (await import('./commands/schedule.ts')).schedule,
  },
  schema: {
    description: 'Compare stored records with their definition.',
    load: async () => (await import('./commands/schema.ts')).schema,
  },
  config: {
    description: 'Show the config as understood, and its format.',
    load: async () => (await import('./commands/config.ts')).config,
  },
};

export const commands: readonly CommandEntry[] = Object.entries(byName).map(([name, entry]) => ({
  name,
  ...entry,
}));
