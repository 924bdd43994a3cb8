import { relative } from 'node:path';
import { reachQueues } from '../../../app/reach-queues.ts';
import {
  removeStored,
  signInOf,
  storedConnector,
  targetsWith,
  type HeldByTarget,
  type StoredConnector,
} from '../../../app/remove-connector.ts';
import { isConnectorName, type ConnectorName } from '../../../core/names.ts';
import { usage } from '../../../core/usage-error.ts';
import { connectorNamed } from '../../../settings/choices.ts';
import { removedConnector, type ConfigEdit } from '../../../settings/edit-connectors.ts';
import type { ConnectorSettings, LocalSettings } from '../../../settings/settings.ts';
import { count, counted, duration, printable, sizeText } from '../../../telemetry/format.ts';
import { showLive } from '../../../telemetry/show-progress.ts';
import { command, type CommandContext } from '../../command.ts';
import { configFile } from '../../load-config.ts';
import { indentedTable, leftColumns, rightColumns } from '../../output/text-table.ts';
import { checkedHere, reloadCommands, writeEdit } from './edit-config.ts';

export const removeConnector = command({
  description: 'Remove a connector from the config file, whose comments stay; with --data its records too.',
  argument: ['<name>', 'its name in the config; with --data also one that has left it'],
  options: {
    '--data': 'drop all that is stored of it, for good: records, history, files, its sign-in',
    '--yes': 'with --data: do it; without this, only show what would be removed',
  },
  help: `
The config is checked without the connector before anything is written, and the file is replaced as a whole.

With --data the records go first, in small steps, then the entry; workers are asked to read the config again. A connector
that a run holds is refused. Interrupted or killed, run the same command again: it resumes. Targets of "publish" start a
generation without rows with their next publication. What people did stays in "actions".

Examples:
  $ connector-sync connectors remove newsletter
  $ connector-sync connectors remove newsletter --data          what would be dropped?
  $ connector-sync connectors remove newsletter --data --yes`,
  run: async (context, flags, text) => {
    const settings = await context.settings();
    const known = isConnectorName(text) ? settings.connectors.get(text) : undefined;
    const edit = known === undefined ? null : await checkedEdit(context, known);
    if (!flags.data) {
      const { name, sink } = connectorNamed(settings, text);
      if (edit === null) throw new TypeError(`${name} is in the config and has no place there`);
      writeEdit(context, edit);
      const next = (await reloadCommands(edit.settings)) ?? [];
      context.terminal.printJson({ connector: name, file: edit.file, sink: sink.name, next });
      context.terminal.print(
        `${removedText(context, name, edit)} What sink ${sink.name} has of it stays.`,
        ...next.map((one) => `Next: ${context.program} ${one}`),
      );
      return;
    }
    if (!isConnectorName(text)) connectorNamed(settings, text);
    // `as`: any other text was refused.
    const name = text as ConnectorName;
    const stored = await storedConnector(
      name,
      known === undefined ? [...settings.sinks.values()] : [known.sink],
    );
    if (known === undefined && stored.length === 0) {
      throw usage(`Neither the config nor one of its sinks has a connector "${name}".`);
    }
    const targets = await targetsWith(name, settings, context);
    const leaving = { name, settings, known: known ?? null, edit, stored, targets };
    if (flags.yes) await remove(context, leaving);
    else await showWhatWouldGo(context, leaving);
  },
});

interface Leaving {
  readonly name: ConnectorName;
  readonly settings: LocalSettings;
  /** Null: it has left the config already. */
  readonly known: ConnectorSettings | null;
  readonly edit: ConfigEdit | null;
  readonly stored: readonly StoredConnector[];
  readonly targets: readonly HeldByTarget[];
}

async function checkedEdit(context: CommandContext, { name }: ConnectorSettings): Promise<ConfigEdit> {
  const { env } = context;
  return await checkedHere(context, () => removedConnector({ file: configFile(context), env }, name));
}

async function remove(context: CommandContext, leaving: Leaving): Promise<void> {
  const { terminal, clock, signal, program } = context;
  const { name, settings, known, edit, stored, targets } = leaving;
  const next: string[] = [];
  const endInConfig = async (): Promise<void> => {
    if (edit === null) return;
    writeEdit(context, edit);
    next.push(...(await reloaded(context, edit.settings)));
  };
  const startedMs = clock.now();
  let gone = 0;
  {
    const line = (): string =>
      `${name}  ${duration(clock.now() - startedMs)}  ${counted(gone, 'row')} dropped`;
    await using _live = showLive(terminal, clock, { line });
    for (const { sink } of stored) {
      const onProgress = (rows: number): void => void (gone = rows);
      const request = { name, sink, connector: known, settings, clock, signal, onProgress };
      const signedOut = await removeStored({ ...request, beforeEnd: endInConfig });
      if (signedOut?.kind === 'removed' || signedOut?.kind === 'failed') {
        terminal.note('Its sign-in is removed here; end its access at the service too.');
      }
    }
    if (stored.length === 0) await endInConfig();
  }
  const rows = stored.reduce((sum, one) => sum + rowsOf(one), 0);
  const publish = targets.map(({ target }) => target).filter((target) => isStillPublished(leaving, target));
  next.push(...publish.map((target) => `publish ${target}`));
  const sinks = stored.map(({ sink }) => sink.name);
  terminal.printJson({ connector: name, isDone: true, file: edit?.file ?? null, sinks, rows, targets, next });
  const dropped =
    sinks.length === 0
      ? 'Nothing was stored of it.'
      : `${counted(rows, 'row')} dropped from sink ${sinks.join(', ')}.`;
  terminal.print(
    `${edit === null ? `${name} was not in the config.` : removedText(context, name, edit)} ${dropped}`,
    ...targetLines(leaving),
    ...next.map((one) => `Next: ${program} ${one}`),
  );
}

/** Has workers take the config over before the connector is free: one with the old config would read it again. */
async function reloaded(
  { signal, terminal }: CommandContext,
  settings: LocalSettings,
): Promise<readonly string[]> {
  await using reached = await reachQueues(settings);
  if (reached.queues === null) return [];
  const { answers, silent } = await reached.queues.reload(signal);
  const refused = answers.filter(({ outcome }) => outcome === 'refused');
  for (const { worker, text } of refused) {
    terminal.note(
      `Worker ${printable(worker)} did not take the config over, and may read the connector again: ${printable(text)}`,
    );
  }
  if (silent > 0) {
    terminal.note(`${counted(silent, 'worker')} did not answer, and may read the connector again.`);
  }
  return silent + refused.length > 0 ? ['reload'] : [];
}

/** Looking was what was asked for: exit code 0. */
async function showWhatWouldGo(context: CommandContext, leaving: Leaving): Promise<void> {
  const { terminal, program } = context;
  const { name, known, stored, targets, edit } = leaving;
  const signIn = known === null ? null : await signInOf(known, context);
  const again = `${program} connectors remove ${name} --data --yes`;
  terminal.printJson({
    connector: name,
    isDone: false,
    file: edit?.file ?? null,
    stored: stored.map(({ sink, ...one }) => ({ sink: sink.name, ...one })),
    targets,
    signIn: signIn?.state ?? null,
    command: again,
  });
  if (stored.length === 0) terminal.print(`${name}: nothing is stored of it.`);
  for (const one of stored) terminal.print(...storedLines(name, one, known));
  if (signIn !== null && signIn.state !== 'signed-out') terminal.print('  Its sign-in would be given back.');
  if (edit !== null) {
    terminal.print(`  Its entry in ${relative(context.cwd, edit.file) || edit.file} would go.`);
  }
  terminal.print(...targetLines(leaving), `Nothing was changed. To do it: ${again}`);
}

function storedLines(
  name: ConnectorName,
  { sink, entities, runs, unfinished }: StoredConnector,
  known: ConnectorSettings | null,
): readonly string[] {
  if (unfinished !== null) {
    return [
      `${name} in sink ${sink.name}: its removal began at ${unfinished.since} (${counted(unfinished.rows, 'row')}) and is not complete.`,
    ];
  }
  const rows = entities.map(({ entity, rows: live, deleted, partitions, quarantined, files }) => [
    entity,
    ...[live, deleted, partitions, quarantined, files?.stored ?? 0].map(count),
  ]);
  const bytes = entities.reduce((sum, { files }) => sum + (files?.bytes ?? 0), 0);
  const folder =
    known?.downloads?.directory ?? 'the folder that "downloads" named; remove them there by hand';
  return [
    `${name} in sink ${sink.name} would be dropped for good:`,
    ...indentedTable(columns, rows),
    `  The reports of ${counted(runs, 'run')} too.`,
    ...(bytes > 0 ? [`  Its files (${sizeText(bytes)}) are in ${folder}.`] : []),
  ];
}

function targetLines(leaving: Leaving): readonly string[] {
  const lines = leaving.targets.map(({ target, entities }) => {
    if (entities === null) return `Target ${target} cannot be reached; it may hold it too.`;
    const has = `Target ${target} holds ${counted(entities, 'entity', 'entities')} of it`;
    return isStillPublished(leaving, target)
      ? `${has}: the next publication starts generations without rows.`
      : `${has}, and no other connector is published there: what it holds stays until you remove it.`;
  });
  if (lines.length === 0) return [];
  return [
    ...lines,
    'SQL and dbt sources that "publish schema" wrote name its tables: write them again afterwards.',
  ];
}

/** Without the connector, a target may have none. */
function isStillPublished({ edit, settings }: Leaving, target: string): boolean {
  return ((edit?.settings ?? settings).publish.get(target)?.connectors.length ?? 0) > 0;
}

function rowsOf({ entities, unfinished }: StoredConnector): number {
  return entities.reduce((sum, { rows, deleted }) => sum + rows + deleted, unfinished?.rows ?? 0);
}

function removedText({ cwd }: CommandContext, name: string, { file }: ConfigEdit): string {
  return `Removed ${name} from ${relative(cwd, file) || file}.`;
}

const columns = [
  ...leftColumns('entity'),
  ...rightColumns('rows', 'deleted', 'listings', 'quarantined', 'files'),
];
