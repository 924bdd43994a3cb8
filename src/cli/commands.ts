import type { AddCommand } from './command.ts';

/** The line of `--help` for each command, by the word after the program's name, in the order of the help. */
const descriptions = {
  demo: 'Try it without an account: a local API with sample data, a sync, a database.',
  init: 'Write a config file to start from; never overwrites one.',
  check: 'Check config, definitions, credentials, connectors, sinks, disk, targets and Redis: one line each.',
  definitions: 'List the connector types that the API offers; list, show, check and try definitions of them.',
  connectors: 'Add connectors to the config, remove them; list, create and delete those behind the API.',
  workspaces: 'List the workspaces of the organization.',
  login: 'Sign in to the service of a connector, in a browser; needed once, or where it says so.',
  logout: 'Forget the sign-in of a connector, and give its tokens back to the service.',
  sync: 'Read connectors into their sinks, resuming from the last run.',
  status: 'Show what is stored, when it was last read completely, the last run, failures, quarantine.',
  runs: 'List runs, newest first; or show the report of one.',
  actions: 'List what people did: pauses, cancelled runs, resets, undone runs, copies, newest first.',
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
  undo: 'Take back what one run has inserted, deleted and, where the history has it, updated.',
  purge: 'Remove records for good, with all that is stored of them, and keep them away.',
  prune: 'Remove what is older than the config keeps, and complete purges that were killed.',
  cancel: 'Stop a run at its next page, in whatever process it is.',
  list: 'Print one live page of an entity, a record per line as JSON.',
  get: 'Print one live record as JSON.',
  download: 'Download one file of a record to a file or to standard output.',
  search: 'Find stored records by a filter.',
  mcp: 'Serve what is stored to agents, read-only: a Model Context Protocol server.',
  ui: 'Show in a browser what is stored, what ran, what failed and what waits for a person.',
  serve: 'Serve the Connector Execution API on this machine, with sample data.',
  applications: 'Manage the clients of the API that "connector-sync serve" serves: client ids and secrets.',
  reload: 'Make the workers read their config again.',
  worker: 'Sync connectors on their schedules until stopped; needs Redis. Logs to stderr, see LOG_LEVEL.',
  schedule: 'Show, pause, resume and start scheduled runs.',
  notify: 'Test the channels that notify people, and show what waits for them.',
  schema: 'Compare stored records with their definition.',
  config: 'Show the config as understood, and its format.',
} as const;

type CommandName = keyof typeof descriptions;

/**
 * Loads the rest of a command: its arguments, options and action. Its modules are loaded only for the command that was
 * called.
 */
const loaders: Readonly<Record<CommandName, () => Promise<AddCommand>>> = {
  demo: async () => (await import('./demo/demo.ts')).demo,
  init: async () => (await import('./commands/init.ts')).init,
  check: async () => (await import('./commands/check.ts')).check,
  definitions: async () => (await import('./commands/definition-commands.ts')).definitions,
  connectors: async () => (await import('./commands/connector-commands.ts')).connectors,
  workspaces: async () => (await import('./commands/connector-commands.ts')).workspaces,
  login: async () => (await import('./commands/login.ts')).login,
  logout: async () => (await import('./commands/login.ts')).logout,
  sync: async () => (await import('./commands/sync.ts')).sync,
  status: async () => (await import('./commands/status.ts')).status,
  runs: async () => (await import('./commands/run-commands.ts')).runs,
  actions: async () => (await import('./commands/run-commands.ts')).actions,
  explain: async () => (await import('./commands/record-commands.ts')).explain,
  audit: async () => (await import('./commands/repair-commands.ts')).audit,
  export: async () => (await import('./commands/record-commands.ts')).exportChanges,
  publish: async () => (await import('./commands/publish.ts')).publish,
  backfill: async () => (await import('./commands/backfill-command.ts')).backfill,
  refetch: async () => (await import('./commands/repair-commands.ts')).refetch,
  adopt: async () => (await import('./commands/repair-commands.ts')).adopt,
  reset: async () => (await import('./commands/act-commands.ts')).reset,
  copy: async () => (await import('./commands/copy.ts')).copy,
  undo: async () => (await import('./commands/act-commands.ts')).undo,
  purge: async () => (await import('./commands/erasure-commands.ts')).purge,
  prune: async () => (await import('./commands/erasure-commands.ts')).prune,
  cancel: async () => (await import('./commands/act-commands.ts')).cancel,
  list: async () => (await import('./commands/read-commands.ts')).list,
  get: async () => (await import('./commands/read-commands.ts')).get,
  download: async () => (await import('./commands/read-commands.ts')).download,
  search: async () => (await import('./commands/search.ts')).search,
  mcp: async () => (await import('./commands/mcp.ts')).mcp,
  ui: async () => (await import('./commands/ui.ts')).ui,
  serve: async () => (await import('./commands/serve.ts')).serve,
  applications: async () => (await import('./commands/applications.ts')).applications,
  reload: async () => (await import('./commands/worker.ts')).reload,
  worker: async () => (await import('./commands/worker.ts')).worker,
  schedule: async () => (await import('./commands/act-commands.ts')).schedule,
  notify: async () => (await import('./commands/notify.ts')).notify,
  schema: async () => (await import('./commands/schema-diff.ts')).schema,
  config: async () => (await import('./commands/config-commands.ts')).config,
};

/** Commands of the first hour, by which the help begins, and all others by subject. */
export const firstCommands = 'demo init check sync status';
export const chapters = {
  Connectors: 'definitions connectors workspaces login logout',
  Runs: 'runs cancel actions',
  Records: 'search list get download explain',
  Warehouses: 'publish export',
  History: 'backfill',
  Repair: 'audit refetch adopt reset undo',
  Erasure: 'purge prune',
  Sinks: 'copy schema',
  Schedules: 'worker schedule reload notify',
  Screens: 'ui mcp',
  'An API': 'serve applications',
  Config: 'config',
};

export const commands = Object.entries(descriptions).map(([name, description]) => ({
  name,
  description,
  // `as`: the entries are those of the descriptions.
  load: loaders[name as CommandName],
}));
