import type { StoredConnector } from '../app/read-statuses.ts';
import { recordsRead, rowsWritten, tookMs } from '../app/run-totals.ts';
import type { Instant } from '../core/clock.ts';
import { addCounts, noCounts, type PageCounts } from '../core/records.ts';
import { wholeJson } from '../core/canonical-json.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import { undatedText } from '../engine/prepare/change-span.ts';
import type { EntityStatus, RunSummary } from '../sinks/ledger-reader.ts';
import type {
  DoubtedListings,
  EntityReport,
  FailureReport,
  RunReport,
  Withholding,
} from '../sinks/run-report.ts';
import { count, counted, duration, printable } from '../telemetry/format.ts';

/**
 * Describes a run: a row for each entity and one for all. The numbers add up from left to right: read = inserted +
 * updated + unchanged + duplicate + the numbers in the notes. Deleted rows are rows that were not read. A failed run
 * has no row for entities that it did not reach; empty if there is no other.
 */
export function runTable(report: RunReport, isVerbose: boolean) {
  const { entities, outcome } = report;
  const total = entities.reduce((sum, { counts }) => addCounts(sum, counts), noCounts);
  const shown = entities.filter(
    (entity) => outcome !== 'failed' || entity.counts.fetched + entity.deleted + entity.pages > 0,
  );
  const sums = numbers(total, sumOf(entities, 'deleted'), sumOf(entities, 'pages'));
  return {
    columns,
    rows: [
      ...shown.map((entity) => entityRow(entity, report, isVerbose)),
      ...(shown.length === 0 ? [] : [['total', ...sums, '', '', '']]),
    ],
  };
}

function sumOf<Name extends string>(all: readonly Readonly<Record<Name, number>>[], name: Name): number {
  return all.reduce((sum, one) => sum + one[name], 0);
}

const columns = [
  { title: 'entity', align: 'left' },
  ...(['read', 'inserted', 'updated', 'unchanged', 'duplicate', 'deleted', 'pages', 'listings'] as const).map(
    (title) => ({ title, align: 'right' }) as const,
  ),
  { title: 'complete', align: 'left' },
  { title: 'notes', align: 'left' },
] as const;

/** Further facts of a run, except for deletes and failures: its costs and its unfinished work. */
export function runFacts(report: RunReport): readonly string[] {
  const left = report.left.map(({ entity, partitions }) => `${entity} (${counted(partitions, 'listing')})`);
  return [
    // A run that could not begin has no costs.
    ...(report.entities.length === 0 ? [] : [costs(report)]),
    ...fileLines(report),
    ...(report.resumeAt === null ? [] : [`! ${pauseOf(report)} ${report.resumeAt}; run it again then`]),
    ...(left.length === 0 ? [] : [`left for the next run: ${left.join(', ')}`]),
    ...partMissingLines(report.partMissing),
    ...undatedLines(report.entities),
  ];
}

/** A line for each entity whose change values are not times, and the solution. */
export function undatedLines(entities: readonly EntityReport[]): readonly string[] {
  return entities.flatMap(({ entity, undated }) =>
    undated > 0 ? [`! ${entity}: ${counted(undated, 'record')} ${undatedText}`] : [],
  );
}

/** A run's end in one line: `ok in 1.2 s: 45,000 read, 12 written` (records and rows); an error by its code. */
export function endText(report: RunReport): string {
  const error = report.error === null ? '' : ` (${report.error.code})`;
  const pause = report.resumeAt === null ? '' : `; ${pauseOf(report)} ${report.resumeAt}`;
  return `${report.outcome}${error} in ${duration(tookMs(report))}: ${count(recordsRead(report))} read, ${count(rowsWritten(report))} written${pause}`;
}

function pauseOf({ resumeBecause }: RunReport): string {
  return resumeBecause === undefined
    ? 'the API asked to wait until'
    : `${resumeBecause}, so no more calls are made until`;
}

/** Reason why a run left something undone, with the words of an error or of the service, and what follows. */
type Reason = readonly [what: string, why: string, then: string];

export const resumes = 'What it stored is kept. The next run resumes from there.';

/** Texts for a person, by the code of the error. */
export const failureTexts: Readonly<Record<string, string>> = {
  AUTH_FAILED: 'The API refused the credentials',
  FORBIDDEN: 'The credentials lack a right',
  IDENTITY_CHANGED: 'The records belong to another account than the stored rows',
  SCHEMA_CHANGED: 'The records have fields that the definition does not declare',
  NETWORK: 'The service could not be reached',
  TIMEOUT: 'The service did not answer in time',
  UPSTREAM: 'The service answered with an error',
};

/** The status with which the service answered a call, and its own words, in the message of the error; null: none. */
export function answerIn(message: string) {
  const [, status, words = ''] = /was answered with (\d{3})(?: "([^]*)")?/.exec(message) ?? [];
  return status === undefined ? null : { status, words };
}

/** Why a run did not do all of its work; null: it did, or is still at it. */
export function runReason(
  { state: of, report }: Pick<RunSummary, 'state' | 'report'>,
  timeOf: (at: Instant) => string,
): Reason | null {
  if (of === 'interrupted') return ['The run was interrupted or cancelled', '', resumes];
  if (of === 'running' || report === null) return null;
  const { error, resumeAt, resumeBecause = '', failures, failuresOmitted, entities, partMissing } = report;
  if (error !== null) {
    const then =
      error.recovery === 'retry' ? 'The next run tries again by itself.' : 'A person has to put it right.';
    return [failureTexts[error.code] ?? 'The run stopped on an error', error.message, `${then} ${resumes}`];
  }
  if (resumeAt !== null) {
    return [`No requests until ${timeOf(resumeAt)}, as the service asked`, resumeBecause, resumes];
  }
  if (of === 'partial') return ['The run reached the limit that it was given', '', resumes];
  const [failed] = failures;
  if (failed !== undefined) {
    const number = counted(failures.length + failuresOmitted, 'listing or file', 'listings and files');
    const what = `${number} could not be read, such as of ${failed.entity}`;
    return [what, failed.message, 'Everything else is stored. The next run reads them again.'];
  }
  const kept = entities.filter(({ withheld }) => withheld > 0);
  if (kept.length > 0) {
    const rows = counted(sumOf(kept, 'withheld'), 'row');
    const names = kept.map(({ entity }) => entity).join(', ');
    return [`${rows} of ${names} seem to be deleted`, '', 'They are kept until you decide.'];
  }
  const [doubted] = partMissing;
  if (doubted === undefined) return null;
  const listings = counted(doubted.listings, 'listing');
  return [`${listings} of ${doubted.entity} may lack records`, '', 'The next run reads more.'];
}

/** Calls wait beside each other, so their waits may add up to more than the run took. */
function costs({ calls, retries, waitedMs, bytes, rate }: RunReport): string {
  return [
    counted(calls, 'call'),
    counted(retries, 'retry', 'retries'),
    ...(waitedMs > 0 ? [`rate-limit wait ${duration(waitedMs)} over all calls${rateText(rate)}`] : []),
    `${count(Math.round(bytes / 1024))} KiB received`,
  ].join(', ');
}

/** Empty if the config sets the rate. */
function rateText(rate: RunReport['rate']): string {
  if (rate === undefined) return '';
  const by =
    rate.by === 'api'
      ? 'as the API states'
      : 'the limit of the connector type; rateLimit of the config changes it';
  return ` (at most ${rate.requestsPerSecond} a second, ${by})`;
}

function entityRow(entity: EntityReport, report: RunReport, isVerbose: boolean): readonly string[] {
  const { counts, pages, proofs } = entity;
  const kinds = Object.entries(proofs).filter(([, ended]) => ended > 0);
  const listings = listingsOf(entity);
  const isQuiet = wasQuiet(entity, report);
  // Rows made of an entity's elements have neither pages nor listings.
  const hasListings = listings + pages + entity.setAside > 0;
  const isChanges = entity.completeness === 'complete' && entity.incremental > 0;
  const completeness = isChanges ? 'changes only' : completenessTexts[entity.completeness];
  const complete = isQuiet || !hasListings ? '' : completeness;
  return [
    entity.entity,
    ...numbers(counts, entity.deleted, pages).map((text, index) => (index === 6 && pages === 0 ? '' : text)),
    listings === 0 ? '' : count(listings),
    isVerbose && kinds.length > 0 ? `${complete} (${kinds.map(([kind]) => kind).join(', ')})` : complete,
    isQuiet ? 'nothing new to read' : notes(entity, report),
  ];
}

/** True if a sync ended `ok` and had no reason to request the entity, even through its parents. */
function wasQuiet({ counts, pages, setAside, entity }: EntityReport, report: RunReport): boolean {
  return (
    report.kind === 'sync' &&
    report.outcome === 'ok' &&
    report.continues === null &&
    counts.fetched + pages + setAside === 0 &&
    report.left.every((part) => part.entity !== entity)
  );
}

function numbers(
  { fetched, inserted, updated, unchanged, duplicate }: PageCounts,
  deleted: number,
  pages: number,
): readonly string[] {
  return [fetched, inserted, updated, unchanged, duplicate, deleted, pages].map(count);
}

function notes({ counts, ...entity }: EntityReport, { partMissing, failures }: RunReport): string {
  const unproven = failures.find((one) => one.entity === entity.entity && one.code === 'UNPROVEN');
  if (unproven !== undefined) return 'not read, the key is not proven';
  const found = partMissing.find((one) => one.entity === entity.entity)?.listings ?? 0;
  const { extraFields, incremental } = entity;
  const listings = listingsOf(entity);
  // If all listings were read incrementally, the column `complete` says so.
  const inFull = incremental > 0 ? listings - incremental : 0;
  const { unchanged, fetched } = counts;
  const isAllAgain = incremental > 0 && inFull === 0 && unchanged >= 50 && unchanged * 2 > fetched;
  const facts: readonly (readonly [number, string])[] = [
    [inFull, `of ${counted(listings, 'listing')} in full`],
    [isAllAgain ? unchanged : 0, 'came again unchanged: the API lists them also when asked for changes'],
    [entity.setAside, 'failed'],
    [entity.withdrawn, 'missed an existing record, to be read again'],
    [found, 'part missing'],
    [entity.unordered, 'without a stable order'],
    [counts.quarantined, 'refused'],
    [counts.filtered, 'filtered'],
    [entity.partial, 'received in part, stored rows kept'],
    // Counts each field without a column in each record, unlike `schema diff`, which shows the number of fields.
    [extraFields, `${extraFields === 1 ? 'value' : 'values'} kept in _extra`],
    [entity.depthLimited, 'below the depth limit'],
    [entity.foreign, 'already stored under another parent'],
  ];
  return facts.flatMap(([number, what]) => (number > 0 ? [`${count(number)} ${what}`] : [])).join(', ');
}

function listingsOf({ proofs }: Pick<EntityReport, 'proofs'>): number {
  return Object.values(proofs).reduce((sum, ended) => sum + ended, 0);
}

function fileLines({ files }: RunReport): readonly string[] {
  return files
    .filter(({ stored, failed, left }) => stored + failed + left > 0)
    .map(({ entity, stored, bytes, failed, left }) => {
      const parts = [
        `${counted(stored, 'file')} stored (${count(Math.round(bytes / 1024))} KiB)`,
        ...(failed > 0 ? [`${count(failed)} failed`] : []),
        ...(left > failed ? [`${count(left - failed)} left for the next run`] : []),
      ];
      return `${entity}: ${parts.join(', ')}`;
    });
}

/** `candidates of job j103`: the listing of an entity that its parameters choose; without them, the entity. */
export function partText({ entity, params }: Pick<FailureReport, 'entity' | 'params'>): string {
  const parts = Object.entries(params).map(([name, value]) => {
    const words = name.replace(/_?id$/i, '').replaceAll('_', ' ').trim();
    return `${words === '' ? name : words} ${typeof value === 'string' ? value : wholeJson(value)}`;
  });
  return printable(parts.length === 0 ? entity : `${entity} of ${parts.join(', ')}`);
}

type ShownFailure = Pick<FailureReport, 'entity' | 'params' | 'code' | 'message'>;

export function failureText({ entity, params, code, message }: ShownFailure): string {
  return `${entity} ${printable(wholeJson(params))}: ${code}: ${printable(message)}`;
}

export const completenessTexts: Readonly<Record<EntityReport['completeness'], string>> = {
  'not-yet': 'not yet',
  'part-missing': 'part missing',
  unconfirmed: 'unconfirmed',
  complete: 'yes',
};

type Doubt = DoubtedListings['doubt'];

/** Runs in a row with the same two numbers, after which it is the total that looks wrong. */
const runsBeforeAdvice = 3;

/** A line for each incomplete entity, and the solution. */
function partMissingLines(partMissing: readonly DoubtedListings[]): readonly string[] {
  return partMissing.flatMap(({ entity, listings, params, doubt, runs }) => {
    const which = Object.keys(params).length === 0 ? '' : ` ${printable(wholeJson(params))}`;
    const more = listings === 1 ? '' : `; and part of ${counted(listings - 1, 'more listing')} of it`;
    return [`! ${entity}${which}: ${doubtText(doubt)}${more}`, ...adviceLines(entity, doubt, runs)];
  });
}

export function doubtText(doubt: Doubt): string {
  switch (doubt.kind) {
    case 'total':
      return `the API counts ${doubt.total} records and showed ${doubt.shown}`;
    case 'repeats':
      return 'the last page came again where the next one was expected, and nothing says that it is the last';
    case 'collision': {
      const [key, other] = [doubt.key, doubt.params].map((one) =>
        one === undefined ? 'one' : printable(wholeJson(one)),
      );
      return `records of one key with different content in several listings: ${key}, here and in ${other}`;
    }
    case 'cut':
      return `the service shows a part of the listing alone (${printable(doubt.by)})`;
    case 'unproven':
      return `read with guesses that nothing has proven (${doubt.guesses.join(', ')}): nothing is deleted, and "connector-sync definitions try <file> <entity> --prove" tests them`;
    case 'shuffled':
      return 'many records came again on later pages: the service changes their order from call to call, and others are missed';
    case 'behind':
      return 'more rows of it are stored than came, and what follows its last page cannot be read: no row of it counts as deleted';
  }
}

function adviceLines(entity: string, doubt: Doubt, runs: number): readonly string[] {
  switch (doubt.kind) {
    case 'collision': {
      const parts = [...Object.keys(doubt.params ?? {}), ...Object.keys(doubt.key ?? {})].join(', ');
      return [
        '  one row stands for all of them, so rows are missing: the key lacks what tells the listings apart. Write',
        `  key: [${printable(parts)}] in the definition, and "inject" of the parent fills what no record has`,
      ];
    }
    case 'cut':
      return [
        '  what it shows is stored, later changes too; nothing is deleted. If it can sort the other way round, name',
        '  the parameters in "cut: { reversed }" of the definition; else read it in parts, such as by parents',
      ];
    case 'repeats':
      return [
        '  if the service ignores the parameter of the page, the rest is missing: see in its answer how it pages;',
        '  only if it is known to repeat its last page, say "end: repeats" in the pagination of the definition',
      ];
    case 'behind':
      return [
        `  if they are gone at the service: "connector-sync reset" of ${entity} makes the next sync read it as new. Its`,
        '  rows stay, and the guards ask before that many are marked as deleted',
      ];
    case 'total':
      if (runs < runsBeforeAdvice) return [];
      return [
        `  ${runs} runs in a row: if its count is wrong, set "totals: ignore" for ${entity} in the config`,
      ];
    case 'unproven':
    case 'shuffled':
      return [];
  }
}

type MissingOf = Pick<EntityReport, 'entity' | 'withheld' | 'withheldBecause' | 'withholding' | 'pending'>;

/** Rows that a run found to be deleted at the source and keeps: the reason and the solution. */
export function deleteLines(report: RunReport, program: string): readonly string[] {
  const { connector, entities } = report;
  const waiting = entities.filter(({ pending }) => pending > 0);
  const pending = waiting.map((one) => `${count(one.pending)} of ${one.entity}`).join(', ');
  return [
    ...withheldLines(connector, entities, program),
    ...(pending === '' ? [] : [`may be deleted, kept until that is confirmed: ${pending}`]),
    ...toConfirmLines(report),
  ];
}

/** Records that later runs request by `get`, and in how many runs; empty if there are none. */
function toConfirmLines({ entities, confirmation }: RunReport): readonly string[] {
  const waiting = entities.filter(({ toConfirm }) => toConfirm > 0);
  if (waiting.length === 0 || confirmation === undefined) return [];
  const { callsPerRun } = confirmation;
  const runs = counted(Math.ceil(sumOf(waiting, 'toConfirm') / callsPerRun), 'run');
  const parts = waiting.map(({ entity, toConfirm }) => `${count(toConfirm)} of ${entity}`).join(', ');
  return [`still to be asked for by get: ${parts}, in ${runs} of up to ${counted(callsPerRun, 'call')}`];
}

/** Deletes that a connector's last run withheld, and rows that later runs still have to check. */
export function missingLines({ connector: { name }, status }: StoredConnector, program: string) {
  const report = status?.lastRun?.report ?? null;
  const missing = new Map((status?.entities ?? []).map((one) => [one.entity, one.missing]));
  const withheld = (report?.entities ?? []).filter(
    (one) => one.withheld > 0 && (missing.get(one.entity) ?? 0) > 0,
  );
  // A row that is missing is still among the rows.
  const others = [...missing.values()].reduce((sum, rows) => sum + rows, 0) - sumOf(withheld, 'withheld');
  const lines = withheldLines(name, withheld, program);
  if (others <= 0) return lines;
  return [
    ...lines,
    `${counted(others, 'row')} may be deleted at the source: kept until a later run is certain`,
    ...(report === null ? [] : toConfirmLines(report)),
  ];
}

/** A line for each entity that is stored incompletely, and the solution. */
export function storedPartMissing(entities: readonly EntityStatus[]): readonly string[] {
  return partMissingLines(
    entities.flatMap(({ entity, partMissing }) => (partMissing === null ? [] : [{ entity, ...partMissing }])),
  );
}

/** Lines about the entities whose deletes are withheld; empty if there are none. */
function withheldLines(connector: string, entities: readonly MissingOf[], program: string) {
  const withheld = entities.filter((entity) => entity.withheld > 0);
  const [first] = withheld;
  if (first === undefined) return [];
  return [
    ...withheld.map(withheldText),
    `  check at the source; if they are deleted there: ${program} sync ${connector} --allow-deletes` +
      `; to look at single records: ${program} audit ${connector}/${first.entity}`,
  ];
}

/** Why rows are kept, where the limit alone does not say it. */
const withheldReasons: Readonly<Record<NonNullable<MissingOf['withheldBecause']>, string>> = {
  empty: ': the listing came back empty, and a second complete read has to agree',
  replaced: ': none of the stored rows came back, only other records. Is it still the same account?',
  adopted: ': the connector was adopted from another address, and no "sync --full" has agreed with it yet',
  along: '',
  share: '',
};

function withheldText({ entity, withheld, withheldBecause, withholding }: MissingOf): string {
  const kept = withheld === 1 ? 'looks deleted and is kept' : 'look deleted and are kept';
  const why = withheldBecause === null ? '' : withheldReasons[withheldBecause];
  const against = withholding === null ? '' : ` (${withholdingFacts(withholding).join(', ')})`;
  return `! ${entity}: ${counted(withheld, 'row')} ${kept}${why}${against}`;
}

/** The count that is compared with the limit, and the limit. */
function withholdingFacts(withholding: Withholding): readonly string[] {
  const { dayAgo, deletedInDay, below, maxDeleteShare, minDeleteRows } = withholding;
  const along = withholding.along
    .filter(({ rows }) => rows > 0)
    .toSorted((one, other) => other.rows - one.rows)
    .map(({ entity, rows }) => `${count(rows)} ${entity}`);
  return [
    `of ${counted(dayAgo, 'row')} a day ago`,
    ...(below === 0 ? [] : [`${count(below)} more would go with the records above them`]),
    ...(deletedInDay === 0 ? [] : [`${count(deletedInDay)} more were deleted in the last 24 hours`]),
    ...(along.length === 0 ? [] : [`${firstNames(along, 3)} would go along`]),
    `limit: more than ${Math.round(maxDeleteShare * 1000) / 10} % and more than ${counted(minDeleteRows, 'row')} in 24 hours`,
  ];
}
