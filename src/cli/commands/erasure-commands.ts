import {
  type ChosenRecords,
  lookAtPurge,
  maskStored,
  type PurgeChoice,
  purgeRecords,
  type PurgeTarget,
} from '../../app/purge-records.ts';
import { cleanedText, cleanTargets } from '../../app/publish-target.ts';
import { parseRecordKey } from '../../app/stored-fields.ts';
import { usage } from '../../core/errors.ts';
import {
  chosenConnectors,
  connectorNamed,
  entityTarget,
  targetsOf,
  targetsOfConnector,
} from '../../settings/choices.ts';
import type { ConnectorSettings, LocalSettings } from '../../settings/settings.ts';
import type { MaskEnd } from '../../sinks/requests.ts';
import { counted } from '../../telemetry/format.ts';
import { allowByAgeText, leftText, withheldByAgeText } from '../../wording/connector-text.ts';
import { command, type CommandContext, type FlagsOf } from '../command.ts';
import { type ExitCode, exitCodes, forEachOf, gravestExitCode } from '../output/exit-codes.ts';
import { countTable } from '../output/text-table.ts';
import { readFilter } from './search.ts';
import { pruneConnector } from '../../app/apply-retention.ts';

const options = {
  '-k, --key <name=value...>': 'every field of the key of one record, or <entity>/<key>',
  '--where <json>':
    'all records that a filter of search finds, deleted and quarantined ones too; @file reads a file',
  '--quarantine': 'all that is in quarantine, with or without a key',
  '--unmasked': 'of a connector: rewrite as its masks say what is stored from before them',
  '--yes': 'with --unmasked: remove entities whose keys are stored as they were before a mask',
  '--dry-run': 'only show what would be removed',
  '--allow-return': 'the next sync may store the records again',
} as const;

export const purge = command({
  argument: [
    '<connector/entity>',
    'such as newsletter/list_members; the connector with --where or --quarantine (all its entities) or --key <entity>/<key>',
  ],
  options,
  help: `
Removes values of records from the sink for good: their rows, the records below them, files, quarantine, lines.
What it removed stays away, also while the API still lists it. docs/guides/erasure.md says what it cannot reach.

Examples:
  $ connector-sync purge newsletter/list_members --key list_id=a1 --key id=62eeb292278cc15f5817cb78f7790b08 --dry-run
  $ connector-sync purge newsletter --key list_members/a1/62eeb292278cc15f5817cb78f7790b08
  $ connector-sync purge newsletter --where '{"eq": {"email_address": "ann@example.com"}}' --json > ann.json
  $ connector-sync purge newsletter --unmasked --dry-run`,
  run: async (context, flags, name) => {
    const settings = await context.settings();
    if (flags.unmasked) {
      if (flags.key.length > 0 || flags.where !== undefined || flags.quarantine) {
        throw usage(
          'Expected --unmasked with the name of a connector, without --key, --where and --quarantine.',
        );
      }
      return await purgeUnmasked(context, settings, connectorNamed(settings, name), flags);
    }
    if (flags.yes) throw usage('--yes belongs to --unmasked.');
    const target = purgeTarget(settings, name, flags);
    const choice = await choiceOf(context, target, flags);
    if (flags.dryRun) return await showWhatWouldGo(context, target, choice);
    const { clock, signal, terminal } = context;
    const names = targetsOfConnector(settings, target.connector.name).map((one) => one.name);
    const asked = { clock, signal, canReturn: flags.allowReturn, targets: names };
    const { end, notAsked } = await purgeRecords(target, choice, asked);
    const targets = await cleanTargets(settings, target.connector, { clock, signal });
    terminal.printJson({
      target: target.name,
      sink: target.connector.sink.name,
      isDone: true,
      ...end,
      notAsked,
      targets,
      outOfReach,
    });
    const { entities, left, records } = end;
    const rows = entities.reduce((sum, one) => sum + one.rows, 0);
    const later = flags.allowReturn
      ? 'may come back with the next sync'
      : 'will stay away from the next syncs';
    terminal.print(
      `${target.name}: ${counted(rows, 'row')} removed; ${counted(records, 'record')} ${later}`,
      ...countTable(entities, ...purgedCounts),
      ...left.map(leftText),
      ...targets.map(cleanedText),
      ...notAskedTexts(notAsked),
    );
    terminal.note(`Out of reach: ${outOfReach.join('; ')}.`);
    const isDone = left.length === 0 && targets.every(({ problem }) => problem === null);
    return isDone ? exitCodes.ok : exitCodes.degraded;
  },
});

function notAskedTexts(notAsked: ChosenRecords['notAsked']): readonly string[] {
  if (notAsked.length === 0) return [];
  return [`Not asked, because the filter does not fit: ${notAsked.map(({ entity }) => entity).join(', ')}`];
}

type PurgeFlags = FlagsOf<typeof options>;

/** Copies and traces of records that no purge removes. */
const outOfReach = [
  'copies that readers of tables, exports, files and publications have made',
  'backups, snapshots of disks, and logs',
  'with PostgreSQL its WAL, archives, replicas and statistics, and dead rows of its targets until VACUUM FULL',
  'older versions of objects in a bucket that keeps them',
  'the service itself, which may still list the records, and indexed stores of serve while it does',
] as const;

/** Without an entity: the one that `--key list_members/a1/62ee` names, or else the whole connector. */
function purgeTarget(settings: LocalSettings, name: string, flags: PurgeFlags): PurgeTarget {
  if (!name.includes('/') && flags.key.length === 0 && (flags.where !== undefined || flags.quarantine)) {
    // Elements go with their records.
    const connector = connectorNamed(settings, name);
    return { name, connector, entities: targetsOf(connector).filter(({ isExploded }) => !isExploded) };
  }
  const [entity = '', ...rest] = (flags.key[0] ?? '').split('/');
  const isNamed = name.includes('/') || rest.length === 0 || entity.includes('=');
  const target = entityTarget(settings, isNamed ? name : `${name}/${entity}`);
  return { ...target, entities: [target] };
}

async function choiceOf(
  context: CommandContext,
  { entities: [target] }: PurgeTarget,
  { key, where, quarantine }: PurgeFlags,
): Promise<PurgeChoice> {
  if (Number(key.length > 0) + Number(where !== undefined) + Number(quarantine) !== 1) {
    throw usage('Expected one of --key with every field of a key, --where with a filter, and --quarantine.');
  }
  if (quarantine) return { kind: 'quarantine' };
  if (where !== undefined) {
    const filter = await readFilter(context, where, '--where');
    if (Object.keys(filter).length > 0) return { kind: 'where', filter };
    throw usage('--where: expected a filter that names a field; an empty one finds every record.');
  }
  if (target === undefined) throw new TypeError('A key is of one entity');
  return { kind: 'key', keyText: parseRecordKey(target.table, key).keyText };
}

async function showWhatWouldGo(
  { terminal, clock, signal }: CommandContext,
  target: PurgeTarget,
  choice: PurgeChoice,
): Promise<void> {
  const { of, notAsked, entities } = await lookAtPurge(target, choice, { clock, signal });
  const records = of.reduce((sum, { keyTexts }) => sum + keyTexts.length, 0);
  terminal.printJson({ target: target.name, isDone: false, records, entities, notAsked });
  terminal.print(
    `${target.name}: a purge would remove these of ${counted(records, 'record')}`,
    ...countTable(entities, ...purgedCounts),
    ...notAskedTexts(notAsked),
    'Nothing was changed.',
  );
}

const purgedCounts = ['rows', 'quarantined', 'files', 'listings'] as const;

/** Runs `purge --unmasked`: removes values that were stored before the masks of the config. */
async function purgeUnmasked(
  { terminal, clock, signal, program }: CommandContext,
  settings: LocalSettings,
  connector: ConnectorSettings,
  { dryRun, yes }: Pick<PurgeFlags, 'dryRun' | 'yes'>,
): Promise<ExitCode> {
  const { name } = connector;
  const how = { clock, signal, targets: targetsOfConnector(settings, name).map((one) => one.name) };
  const look = await maskStored(connector, { ...how, isLook: true });
  const isUnsure = look.removed.length > 0 && !yes;
  if (dryRun || isUnsure) {
    terminal.printJson({ connector: name, isDone: false, ...look });
    terminal.print(...unmaskedTexts(name, look, 'would be'), 'Nothing was changed.');
    if (isUnsure) terminal.print(`To remove them: ${program} purge ${name} --unmasked --yes`);
    return dryRun ? exitCodes.ok : exitCodes.usage;
  }
  const end = await maskStored(connector, how);
  const targets = await cleanTargets(settings, connector, { clock, signal });
  terminal.printJson({ connector: name, isDone: true, ...end, targets });
  terminal.print(...unmaskedTexts(name, end, 'were'), ...end.left.map(leftText), ...targets.map(cleanedText));
  if (end.removed.length > 0) {
    terminal.print(`Next: ${program} sync ${name}, then purge --unmasked again for what has no other key.`);
  }
  terminal.note('Out of reach: copies that readers have made, backups and logs from before the masks.');
  const isDone = end.left.length === 0 && targets.every(({ problem }) => problem === null);
  return isDone ? exitCodes.ok : exitCodes.degraded;
}

function unmaskedTexts(name: string, { removed, entities, texts }: MaskEnd, verb: string): readonly string[] {
  if (removed.length > 0) {
    const title = `${name}: a mask covers their keys, so these ${verb} removed; deleted rows, versions and what the API no longer has do not come back`;
    return [title, ...countTable(removed, 'rows', 'deleted', 'versions')];
  }
  return [
    `${name}: these ${verb} rewritten as its masks say, and ${counted(texts, 'position or message', 'positions and messages')}`,
    ...(entities.length === 0
      ? ['  nothing is older than the masks']
      : countTable(entities, 'rows', 'versions', 'quarantined', 'files', 'lines')),
  ];
}

export const prune = command({
  argument: ['[connector...]', 'names from the config, * stands for any text (default: all)'],
  options: {
    '--dry-run': 'only show what would be removed',
    '--allow-deletes': 'remove also what a guard keeps because it is so much at once',
  },
  help: `
Removes what is older than "retention" and "history" of the config keep, as every sync does once a day, and completes
purges that were killed. Deleted rows go only after every target of the config has published that they are deleted.
More than the share of "guards" at once stays, as on an old sink with a new setting: look with --dry-run, then allow it.

Examples:
  $ connector-sync prune --dry-run
  $ connector-sync prune newsletter
  $ connector-sync prune newsletter --allow-deletes`,
  run: async (context, { dryRun, allowDeletes }, names) => {
    const { terminal, clock, signal, program } = context;
    const settings = await context.settings();
    const marksOf = (connector: string) => ({ connector });
    return await forEachOf(context, chosenConnectors(settings, names), marksOf, async (connector) => {
      const how = { clock, signal, isDryRun: dryRun, allowDeletes };
      const { entities, withheld, left } = await pruneConnector(settings, connector, how);
      const targets = dryRun ? [] : await cleanTargets(settings, connector, { clock, signal });
      terminal.printJson({
        connector: connector.name,
        isDone: !dryRun,
        entities,
        withheld: withheld.map(({ kind: _kind, ...one }) => one),
        left,
        targets: targets.map((one) => ({ ...one })),
      });
      const found = entities
        .filter((one) => one.rows + one.quarantined + one.files + one.versions > 0)
        .map((one) => ({ ...one, 'deleted rows': one.rows }));
      const what = dryRun ? 'would be removed' : 'removed';
      terminal.print(
        `${connector.name}: ${found.length === 0 ? `nothing ${what}` : what}`,
        ...(found.length === 0 ? [] : countTable(found, 'deleted rows', 'quarantined', 'files', 'versions')),
        ...withheld.map((one) => `  ${withheldByAgeText(one)}`),
        ...(withheld.length === 0 ? [] : [`  ${allowByAgeText(connector.name, program)}`]),
        ...[...left.map(leftText), ...targets.map(cleanedText)].map((line) => `  ${line}`),
      );
      const isLeft = left.length > 0 || targets.some(({ problem }) => problem !== null);
      return gravestExitCode([
        isLeft ? exitCodes.degraded : exitCodes.ok,
        withheld.length > 0 ? exitCodes.guard : exitCodes.ok,
      ]);
    });
  },
});
