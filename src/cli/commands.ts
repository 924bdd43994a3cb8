import type { AddCommand } from './command.ts';

/** Of each command, by the word after the program's name, the line that `--help` shows, in its order. */
const descriptions = {
  demo: 'Try it without an account: a local API with sample data, a sync, a database.',
  init: 'Write a config file to start from; never overwrites one.',
  check: 'Check config, definitions, credentials, connectors, sinks, disk, targets and Redis: one line each.',
  discover: 'List the connectors behind the API; or the entities, fields, parents and parameters of one.',
  definitions: 'List the connector types that the API offers; list, show, check and try definitions of them.',
  connectors: 'List, create and delete connectors behind the API.',
  workspaces: 'List the workspaces of the organization.',
  sync: 'Read connectors into their sinks, resuming from the last run.',
  status: 'Show what is stored, when it was last read completely, the last run, failures, quarantine.',
  runs: 'List runs, newest first; or show the report of one.',
  explain:
    'Show the history of one record: when it was stored, by which run, and why the last sync read it or not.',
  audit: 'Read an entity in full and list how the stored rows differ from it; changes nothing.',
  export: 'Write the stored changes after a number, deletes included, as JSON lines or CSV.',
  publish: 'Publish changes to files, buckets or databases for a warehouse, atomically.',
  backfill: 'Read history in windows of time, newest first; leaves sync cursors unchanged.',
  refetch: 'Read one record again and store it.',
  adopt: 'Accept a changed address or connector id, after comparing a sample; deletes nothing.',
  reset: 'Discard the saved progress of an entity or a whole connector; with --data its records too.',
  copy: 'Move connectors from one sink into another, with their whole state; reads nothing again.',
  undelete: 'Take back the deletes of one run.',
  cancel: 'Stop a run at its next page, in whatever process it is.',
  list: 'Print one live page of an entity, a record per line as JSON.',
  get: 'Print one live record as JSON.',
  download: 'Download one file of a record to a file or to standard output.',
  search: "Find stored records by a filter; with --remote, those of the API's indexed store.",
  serve: 'Serve the Connector Execution API on this machine, with sample data.',
  applications: 'Manage the clients of the API that "connector-sync serve" serves: client ids and secrets.',
  worker: 'Sync connectors on their schedules until stopped; needs Redis. Logs to stderr, see LOG_LEVEL.',
  schedule: 'Show, pause and start scheduled runs.',
  schema: 'Compare stored records with their definition.',
  config: 'Show the config as understood, and its format.',
} as const;

type CommandName = keyof typeof descriptions;

/**
 * Where the rest of it is: its arguments, options and action. Its modules are loaded here, and only for the command
 * that was asked for.
 */
const loaders: Readonly<Record<CommandName, () => Promise<AddCommand>>> = {
  demo: async () => (await import('./demo/demo.ts')).demo,
  init: async () => (await import('./commands/init.ts')).init,
  check: async () => (await import('./commands/check.ts')).check,
  discover: async () => (await import('./commands/discover.ts')).discover,
  definitions: async () => (await import('./commands/definitions.ts')).definitions,
  connectors: async () => (await import('./commands/connectors.ts')).connectors,
  workspaces: async () => (await import('./commands/connectors.ts')).workspaces,
  sync: async () => (await import('./commands/sync.ts')).sync,
  status: async () => (await import('./commands/status.ts')).status,
  runs: async () => (await import('./commands/runs.ts')).runs,
  explain: async () => (await import('./commands/explain.ts')).explain,
  audit: async () => (await import('./commands/audit.ts')).audit,
  export: async () => (await import('./commands/export.ts')).exportChanges,
  publish: async () => (await import('./commands/publish.ts')).publish,
  backfill: async () => (await import('./commands/backfill.ts')).backfill,
  refetch: async () => (await import('./commands/refetch.ts')).refetch,
  adopt: async () => (await import('./commands/adopt.ts')).adopt,
  reset: async () => (await import('./commands/reset.ts')).reset,
  copy: async () => (await import('./commands/copy.ts')).copy,
  undelete: async () => (await import('./commands/runs.ts')).undelete,
  cancel: async () => (await import('./commands/runs.ts')).cancel,
  list: async () => (await import('./commands/read-records.ts')).list,
  get: async () => (await import('./commands/read-records.ts')).get,
  download: async () => (await import('./commands/download.ts')).download,
  search: async () => (await import('./commands/search.ts')).search,
  serve: async () => (await import('./commands/serve.ts')).serve,
  applications: async () => (await import('./commands/applications.ts')).applications,
  worker: async () => (await import('./commands/worker.ts')).worker,
  schedule: async () => (await import('./commands/schedule.ts')).schedule,
  schema: async () => (await import('./commands/schema.ts')).schema,
  config: async () => (await import('./commands/config.ts')).config,
};

export const commands = Object.entries(descriptions).map(([name, description]) => ({
  name,
  description,
  // `as`: the entries are those of the descriptions.
  load: loaders[name as CommandName],
}));
