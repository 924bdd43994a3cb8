import { readFile, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import * as z from 'zod';
import { cleanTargets, type CleanedTarget } from '../../app/clean-targets.ts';
import {
  isSignedHere,
  lookAtPurge,
  purgeRecords,
  signedReport,
  type ChosenRecords,
  type PurgeChoice,
  type PurgeReport,
  type PurgeTarget,
} from '../../app/purge-records.ts';
import { parseRecordKey } from '../../app/record-key.ts';
import { usage } from '../../core/usage-error.ts';
import { connectorNamed } from '../../settings/chosen-connectors.ts';
import { connectorTargets, entityTarget } from '../../settings/entity-target.ts';
import type { LocalSettings } from '../../settings/settings.ts';
import type { LeftStep, PurgedOf } from '../../sinks/purges.ts';
import { count, counted } from '../../telemetry/format.ts';
import { command, type CommandContext, type FlagsOf } from '../command.ts';
import { exitCodes, type ExitCode } from '../output/exit-codes.ts';
import { indentedTable, leftColumns, rightColumns } from '../output/text-table.ts';
import { purgeServed, servedStore, servedText } from './purge/purge-served.ts';
import { purgeUnmasked } from './purge/purge-unmasked.ts';
import { readFilter } from './search/read-query.ts';

const options = {
  '-k, --key <name=value...>': 'every field of the key of one record, or <entity>/<key>',
  '--where <json>': 'all records that a filter of search finds, deleted ones too; @file reads a file',
  '--unmasked': 'of a connector: rewrite as its masks say what is stored from before them',
  '--dry-run': 'only show what would be removed',
  '--allow-return': 'the next sync may store the records again',
  '--serve-data <folder>': 'the data folder of "serve" on this machine: purges its indexed store too',
  '--report <file>': 'write a signed report of what was removed, which names no record',
  '--verify <file>': 'check the signature of such a report; removes nothing',
} as const;

export const purge = command({
  argument: [
    '<connector/entity>',
    'such as newsletter/list_members; the connector with --where (all its entities) or --key <entity>/<key>',
  ],
  options,
  help: `
Removes values of records from the sink for good: their rows, the records below them, files, quarantine, lines.
What it removed stays away, also while the API still lists it. docs/guides/erasure.md says what it cannot reach.

Examples:
  $ connector-sync purge newsletter/list_members --key list_id=a1 --key id=62eeb292278cc15f5817cb78f7790b08 --dry-run
  $ connector-sync purge newsletter --key list_members/a1/62eeb292278cc15f5817cb78f7790b08
  $ connector-sync purge newsletter --where '{"eq": {"email_address": "ann@example.com"}}' --report ann.json
  $ connector-sync purge newsletter --verify ann.json
  $ connector-sync purge newsletter --unmasked --dry-run`,
  run: async (context, flags, name) => {
    const settings = await context.settings();
    if (flags.verify !== undefined) {
      const [connector = ''] = name.split('/');
      return await verify(context, connectorNamed(settings, connector), flags.verify);
    }
    if (flags.unmasked) {
      if (flags.key.length > 0 || flags.where !== undefined) {
        throw usage('Expected --unmasked with the name of a connector, without --key and --where.');
      }
      const connector = connectorNamed(settings, name);
      return await purgeUnmasked(context, {
        settings,
        connector,
        isDryRun: flags.dryRun,
        leftText,
        targetText,
      });
    }
    const target = purgeTarget(settings, name, flags);
    const choice = await choiceOf(context, target, flags);
    if (flags.dryRun) return await showWhatWouldGo(context, target, choice);
    const { clock, signal, terminal } = context;
    const canReturn = flags.allowReturn;
    const served = await servedStore(context, target, flags.serveData);
    const { end, of, notAsked } = await purgeRecords(target, choice, { clock, signal, canReturn });
    const store =
      served === null ? null : await purgeServed(context, served, target, { of, choice, canReturn, signal });
    const touched = end.entities.map((one) => one.entity);
    const cleaning = { connector: target.connector.name, entities: touched };
    const targets = await cleanTargets(settings, cleaning, { clock, signal });
    const more = {
      notAsked: notAsked.map((one) => ({ ...one })),
      store: store === null ? null : { ...store },
      targets: targets.map((one) => ({ ...one })),
      outOfReach: [...outOfReach],
    };
    const signed = signedReport(target, end, more);
    if (flags.report !== undefined) await writeReport(resolve(context.cwd, flags.report), signed);
    terminal.printJson({ target: target.name, ...signed });
    const { entities, left, records } = end;
    const rows = entities.reduce((sum, one) => sum + one.rows, 0);
    terminal.print(
      `${target.name}: ${counted(rows, 'row')} removed; ${awayText(records.length, flags.allowReturn)}`,
    );
    terminal.print(...indentedTable(columns, entities.map(rowOf)));
    for (const one of left) terminal.print(leftText(one, context.program));
    if (store !== null) terminal.print(servedText(store));
    terminal.print(...targets.map(targetText), ...notAskedTexts(notAsked));
    terminal.note(`Out of reach: ${outOfReach.join('; ')}.`);
    const problems = [store?.problem ?? null, ...targets.map(({ problem }) => problem)];
    const isDone = left.length + (store?.left ?? 0) === 0 && problems.every((one) => one === null);
    return isDone ? exitCodes.ok : exitCodes.degraded;
  },
});

function targetText({ target, publication, removed, problem }: CleanedTarget): string {
  if (problem !== null) return `Target ${target} may still hold them: ${problem}`;
  if (publication === null) return `Target ${target}: nothing was ever published`;
  const { publications, files } = removed;
  return `Target ${target}: publication ${publication} is without them; ${counted(publications, 'older publication')} removed, with ${counted(files, 'file')}`;
}

function notAskedTexts(notAsked: ChosenRecords['notAsked']): readonly string[] {
  if (notAsked.length === 0) return [];
  return [`Not asked, because the filter does not fit: ${notAsked.map(({ entity }) => entity).join(', ')}`];
}

type PurgeFlags = FlagsOf<typeof options>;

/** What no purge removes. */
const outOfReach = [
  'copies that readers of tables, exports, files and publications have made',
  'backups, snapshots of disks, and logs',
  'with PostgreSQL its WAL, archives, replicas and statistics, and dead rows of its targets until VACUUM',
  'older versions of objects in a bucket that keeps them',
  'the service itself, which may still list the records',
] as const;

/** Without an entity: that of `--key list_members/a1/62ee`, and for `--where` all of the connector. */
function purgeTarget(settings: LocalSettings, name: string, flags: PurgeFlags): PurgeTarget {
  const { key, where } = flags;
  if (!name.includes('/') && key.length === 0 && where !== undefined) {
    return { name, connector: connectorNamed(settings, name), entities: connectorTargets(settings, name) };
  }
  const [path = '', ...more] = key;
  const [entity = ''] = path.split('/');
  const isNamed = more.length === 0 && entity !== path && !entity.includes('=');
  const target = entityTarget(settings, name.includes('/') || !isNamed ? name : `${name}/${entity}`);
  return { ...target, entities: [target] };
}

async function choiceOf(
  context: CommandContext,
  { entities: [target] }: PurgeTarget,
  { key, where }: PurgeFlags,
): Promise<PurgeChoice> {
  if (key.length > 0 === (where !== undefined)) {
    throw usage('Expected --key with every field of a key, or --where with a filter, and not both.');
  }
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
): Promise<ExitCode> {
  const { of, notAsked, entities } = await lookAtPurge(target, choice, { clock, signal });
  const records = of.reduce((sum, { keyTexts }) => sum + keyTexts.length, 0);
  terminal.printJson({ target: target.name, isDone: false, records, entities, notAsked });
  terminal.print(`${target.name}: a purge would remove these of ${counted(records, 'record')}`);
  terminal.print(...indentedTable(columns, entities.map(rowOf)), ...notAskedTexts(notAsked));
  terminal.print('Nothing was changed.');
  return exitCodes.ok;
}

function awayText(records: number, canReturn: boolean): string {
  const which = counted(records, 'record');
  return canReturn
    ? `${which} may come back with the next sync`
    : `${which} will stay away from the next syncs`;
}

function leftText({ step, entity, why }: LeftStep, program: string): string {
  const what = step === 'lines' ? 'lines of its files' : 'freed space of its table';
  return `Not done yet: ${what} (${entity})${why === null ? '' : `: ${why}`} To do it: ${program} prune`;
}

const columns = [...leftColumns('entity'), ...rightColumns('rows', 'quarantined', 'files', 'listings')];

function rowOf({ entity, rows, quarantined, files, listings }: PurgedOf): readonly string[] {
  return [entity, count(rows), count(quarantined), count(files), count(listings)];
}

/** Never over another file: a report is the only one of its purge. */
async function writeReport(file: string, signed: PurgeReport): Promise<void> {
  await writeFile(file, `${JSON.stringify(signed, null, 2)}\n`, { flag: 'wx', mode: 0o600 });
}

const storedReport = z.object({
  report: z.record(z.string(), z.json()),
  signature: z.object({ algorithm: z.literal('HMAC-SHA-256'), keyId: z.string(), value: z.string() }),
});

async function verify(
  { terminal, cwd }: CommandContext,
  connector: Parameters<typeof isSignedHere>[0],
  file: string,
): Promise<ExitCode> {
  const path = resolve(cwd, file);
  const read = storedReport.safeParse(JSON.parse(await readFile(path, 'utf8')));
  if (!read.success) throw usage(`${path} is no report of a purge.`);
  const isSigned = await isSignedHere(connector, read.data);
  terminal.printJson({ file: path, isSigned: isSigned === true });
  const texts = {
    yes: `${path}: signed by sink ${connector.sink.name}, and unchanged since`,
    no: `${path}: was changed, or not signed by sink ${connector.sink.name}`,
    unknown: `${path}: was signed with another secret than the one of ${connector.name} in sink ${connector.sink.name}`,
  };
  terminal.print(isSigned === null ? texts.unknown : isSigned ? texts.yes : texts.no);
  return isSigned === true ? exitCodes.ok : exitCodes.degraded;
}
