import { readFile, writeFile } from 'node:fs/promises';
import { resolve } from 'node:path';
import * as z from 'zod';
import { cleanTargets, type CleanedTarget } from '../../app/clean-targets.ts';
import {
  isSignedHere,
  lookAtPurge,
  purgeRecords,
  signedReport,
  storedConnectorId,
  type PurgeChoice,
  type PurgeReport,
} from '../../app/purge-records.ts';
import { parseRecordKey } from '../../app/record-key.ts';
import { usage } from '../../core/usage-error.ts';
import { purgeStore } from '../../service/store/purge-store.ts';
import { connectorNamed } from '../../settings/chosen-connectors.ts';
import { entityTarget, type EntityTarget } from '../../settings/entity-target.ts';
import type { LeftStep, PurgedOf } from '../../sinks/purges.ts';
import { count, counted } from '../../telemetry/format.ts';
import { command, type CommandContext, type FlagsOf } from '../command.ts';
import { exitCodes, type ExitCode } from '../output/exit-codes.ts';
import { indentedTable, leftColumns, rightColumns } from '../output/text-table.ts';
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
    'such as newsletter/list_members; with --key <entity>/<key> the connector',
  ],
  options,
  help: `
Removes values of records from the sink for good: their rows, the records below them, files, quarantine, lines.
What it removed stays away, also while the API still lists it. docs/guides/erasure.md says what it cannot reach.

Examples:
  $ connector-sync purge newsletter/list_members --key list_id=a1 --key id=62eeb292278cc15f5817cb78f7790b08 --dry-run
  $ connector-sync purge newsletter --key list_members/a1/62eeb292278cc15f5817cb78f7790b08
  $ connector-sync purge newsletter/list_members --where '{"eq": {"email_address": "ann@example.com"}}' --report ann.json
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
    const target = entityTarget(settings, targetName(name, flags));
    const choice = await choiceOf(context, target, flags);
    if (flags.dryRun) return await showWhatWouldGo(context, target, choice);
    const { clock, signal, terminal } = context;
    const canReturn = flags.allowReturn;
    const { end, keyTexts } = await purgeRecords(target, choice, { clock, signal, canReturn });
    const entity = target.table.entity;
    const store = await purgeServed(context, target, flags.serveData, {
      entity,
      keyTexts,
      canReturn,
      signal,
    });
    const touched = end.entities.map((one) => one.entity);
    const cleaning = { connector: target.connector.name, entities: touched };
    const targets = await cleanTargets(settings, cleaning, { clock, signal });
    const more = { store, targets: targets.map((one) => ({ ...one })), outOfReach: [...outOfReach] };
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
    if (store !== null) terminal.print(`serve: ${counted(store.rows, 'row')} removed from its indexed store`);
    terminal.print(...targets.map(targetText));
    terminal.note(`Out of reach: ${outOfReach.join('; ')}.`);
    const isDone = left.length + (store?.left ?? 0) === 0 && targets.every(({ problem }) => problem === null);
    return isDone ? exitCodes.ok : exitCodes.degraded;
  },
});

function targetText({ target, publication, removed, problem }: CleanedTarget): string {
  if (problem !== null) return `Target ${target} may still hold them: ${problem}`;
  if (publication === null) return `Target ${target}: nothing was ever published`;
  const { publications, files } = removed;
  return `Target ${target}: publication ${publication} is without them; ${counted(publications, 'older publication')} removed, with ${counted(files, 'file')}`;
}

/** The indexed store that "serve" keeps of the same connector. Null where none was named. */
async function purgeServed(
  { clock, cwd }: CommandContext,
  { connector }: EntityTarget,
  folder: string | undefined,
  request: Parameters<typeof purgeStore>[1],
): Promise<{ readonly rows: number; readonly left: number } | null> {
  if (folder === undefined) return null;
  const connectorId = await storedConnectorId(connector);
  const at = { folder: resolve(cwd, folder), connectorId: connectorId ?? '', clock };
  const end = connectorId === null ? null : await purgeStore(at, request);
  if (end !== null) {
    return { rows: end.entities.reduce((sum, one) => sum + one.rows, 0), left: end.left.length };
  }
  throw usage(`${at.folder} has no indexed store of ${connector.name}. The sink itself is purged.`);
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

/** With `--key list_members/a1/62ee` the connector is enough. */
function targetName(name: string, { key: [path = '', ...more] }: PurgeFlags): string {
  const [entity = ''] = path.split('/');
  const isNamed = more.length === 0 && entity !== path && !entity.includes('=');
  return name.includes('/') || !isNamed ? name : `${name}/${entity}`;
}

async function choiceOf(
  context: CommandContext,
  target: EntityTarget,
  { key, where }: PurgeFlags,
): Promise<PurgeChoice> {
  if (key.length > 0 === (where !== undefined)) {
    throw usage('Expected --key with every field of a key, or --where with a filter, and not both.');
  }
  if (where !== undefined) return { kind: 'where', filter: await readFilter(context, where, '--where') };
  return { kind: 'key', keyText: parseRecordKey(target.table, key).keyText };
}

async function showWhatWouldGo(
  { terminal, clock, signal }: CommandContext,
  target: EntityTarget,
  choice: PurgeChoice,
): Promise<ExitCode> {
  const { keys, entities } = await lookAtPurge(target, choice, { clock, signal });
  terminal.printJson({ target: target.name, isDone: false, records: keys, entities });
  terminal.print(`${target.name}: a purge would remove these of ${counted(keys, 'record')}`);
  terminal.print(...indentedTable(columns, entities.map(rowOf)), 'Nothing was changed.');
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
