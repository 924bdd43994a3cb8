import { isJsonObject, type JsonValue } from '../../../core/json.ts';
import type {
  FieldDrift,
  Params,
  ColumnValue,
  EntityTable,
  FieldType,
  PreparedRecord,
} from '../../../core/records.ts';
import type { Definition, Entity } from '../../../definitions/definition.ts';
import { wholeJson } from '../../../engine/prepare/canonical-json.ts';
import type { TriedCall, TriedStep } from '../../../engine/try-listing.ts';
import type { SeenExchange } from '../../../http/exchange.ts';
import { counted, duration, printable, printableWithin, sizeText, count } from '../../../telemetry/format.ts';
import { doubtText } from '../../../wording/run-report-table.ts';
import { shellWord } from '../../environment.ts';
import {
  fact,
  indentedTable,
  leftColumns,
  columnGap,
  cutToWidth,
  displayWidth,
  marks,
} from '../../output/text-table.ts';
import { declarationOf } from '../schema.ts';

/** Used where the width of the screen is not known. */
const usualColumns = 80;
const longestText = 400;
const mostNamed = 20;
const mostRefused = 5;

/** The command that tries another entity in the same way; `params` are flags. */
export type CommandFor = (entity: string, params: readonly string[]) => string;

/** With the requests that it took. */
export type SeenCall = TriedCall & { readonly exchanges: readonly SeenExchange[] };

interface Shown {
  readonly definition: Definition;
  readonly entity: Entity;
  readonly maxCalls: number;
  readonly isDirect: boolean;
  /** Records shown of each page. */
  readonly rows: number;
  readonly command: CommandFor;
}

/** What a trial shows to a person, call by call. `width`: of the screen; null: not known. */
export function openCallText(trial: Shown, columns: number | null) {
  const { definition, entity, isDirect, maxCalls, rows, command } = trial;
  const width = columns ?? usualColumns;
  const known = new Set<string>();
  const calls: SeenCall[] = [];
  return {
    heading: (): string =>
      `${definition.name}/${entity.name}, at most ${counted(maxCalls, 'call')}; nothing is stored`,
    /** The requests that find out whether the credentials hold. */
    connecting: (exchanges: readonly SeenExchange[]): readonly string[] =>
      exchanges.flatMap((seen) => exchangeText(seen, width)),
    connected: (account: string): string =>
      isDirect && account === 'unnamed'
        ? `${marks.ok} the service answers; the definition does not tell its accounts apart`
        : `${marks.ok} ${isDirect ? 'account' : 'connector'} ${printableWithin(account, width - 20)} answers`,
    call(call: SeenCall): readonly string[] {
      calls.push(call);
      const { request, page, commit, problems, error, exchanges } = call;
      const isNew = ({ entity: table, field, kind, type }: FieldDrift): boolean => {
        const text = JSON.stringify([table, field, kind, type]);
        return !known.has(text) && known.add(text) !== null;
      };
      return [
        '',
        ...callText(`call ${calls.length}`, entity, request.params, width),
        ...exchanges.flatMap((seen) => exchangeText(seen, width)),
        ...(page === null ? [] : metadataText(page.metadata ?? null, width)),
        ...(error === null ? [] : fact('failed', printable(error.message), width)),
        ...(commit === null ? [] : commitText(entity, call, rows, width)),
        ...(commit === null ? [] : driftText(entity, commit.drift.filter(isNew), width)),
        ...problems.flatMap((problem) => fact('problem', printable(problem), width)),
        ...childrenText(call, width),
        ...(isOver(call) ? [] : fact('paging', pagingText(entity, call), width)),
      ];
    },
    ending: (): readonly string[] => [
      '',
      ...endingText(calls.at(-1)?.next ?? null, trial, width),
      ...childCommands(calls, command),
    ],
  };
}

/** The call failed, which says it all. */
function isOver({ error, commit, next }: SeenCall): boolean {
  return error !== null && commit === null && next.kind !== 'call';
}

function exchangeText({ method, url, body, status, ms, wireBytes, keys }: SeenExchange, width: number) {
  const answer =
    status === null
      ? `none after ${duration(ms)}`
      : `${status}, ${sizeText(wireBytes)}, ${duration(ms)}${keys === null ? '' : `; has ${namesText(keys)}`}`;
  return [
    ...fact(method, printableWithin(url, longestText), width),
    // Blanks to break lines at.
    ...(body === null ? [] : fact('', printableWithin(body, longestText).replaceAll(',"', ', "'), width)),
    ...fact('answer', answer, width),
  ];
}

function metadataText(metadata: JsonValue, width: number): readonly string[] {
  if (!isJsonObject(metadata)) return [];
  const members = Object.entries(metadata);
  const shown = members
    .slice(0, mostNamed)
    .map(([name, value]) => `${printableWithin(name, 40)} ${valueText(value)}`);
  const more = members.length > mostNamed ? [`${members.length - mostNamed} more`] : [];
  return members.length === 0 ? [] : fact('metadata', [...shown, ...more].join(', '), width);
}

function commitText(entity: Entity, call: SeenCall, rows: number, width: number): readonly string[] {
  const { page, commit } = call;
  if (commit === null) return [];
  const { filtered, foreign, refused, fetched } = commit;
  const partial = commit.rows[0]?.records.filter((record) => record.partial !== undefined).length ?? 0;
  const total = page?.total === undefined ? '' : ` of a total of ${page.total}`;
  const parts = [
    `${counted(fetched, 'record')}${total}`,
    ...(filtered === 0 ? [] : [`${filtered} of another kind, left out`]),
    ...(foreign === 0 ? [] : [`${foreign} of another listing, left out`]),
    ...(partial === 0 ? [] : [`${partial} of which only a part came`]),
    ...(refused.length === 0 ? [] : [`${refused.length} that cannot be stored (quarantine)`]),
  ];
  const tables = [entity.table, ...(entity.explodedTable === null ? [] : [entity.explodedTable])];
  return [
    ...fact('records', parts.join(', '), width),
    ...tables.flatMap((table, index) => {
      const records = commit.rows[index]?.records ?? [];
      const isOwn = index === 0;
      const head = isOwn ? [] : fact('rows', `${counted(records.length, 'row')} of ${table.entity}`, width);
      return [...head, ...rowsText(table, records, { rows, width })];
    }),
    ...refused
      .slice(0, mostRefused)
      .flatMap(({ reason, detail }) => fact('refused', `${reason}: ${printableWithin(detail, 200)}`, width)),
  ];
}

function driftText(entity: Entity, drift: readonly FieldDrift[], width: number): readonly string[] {
  if (drift.length === 0) return [];
  const rows = drift
    .slice(0, mostNamed)
    .map((note) => [
      printableWithin(note.field, 30),
      note.type,
      note.kind === 'misfit' ? `does not fit ${entity.fields.get(note.field) ?? 'its field'}` : 'undeclared',
      declarationOf({ ...note, types: [note.type] }) ?? '',
    ]);
  const more = drift.length > mostNamed ? fact('', `and ${drift.length - mostNamed} more`, width) : [];
  const columns = leftColumns('field', 'came as', 'is', 'to declare it');
  return [
    ...fact('fields', `not as declared; they are kept in _extra`, width),
    ...indentedTable(columns, rows, width),
    ...more,
  ];
}

/** What a sync would read because of these records. */
function childrenText({ commit }: SeenCall, width: number): readonly string[] {
  const names = (commit?.children ?? []).map(({ entity }) => entity);
  const counts = [...new Set(names)].map((name) => {
    const listings = names.filter((one) => one === name).length;
    return `${counted(listings, 'listing')} of ${name}`;
  });
  return counts.length === 0 ? [] : fact('leads to', counts.join(', '), width);
}

/**
 * A command for the first listing of each entity below this one. Whole: it is to be copied. Listings inside a tree are
 * read with their tree.
 */
function childCommands(calls: readonly SeenCall[], command: CommandFor): readonly string[] {
  const children = calls
    .flatMap(({ commit }) => commit?.children ?? [])
    .filter(({ parent }) => parent !== null);
  const first = new Map(children.toReversed().map((child) => [child.entity, child.params]));
  const lines = [...first].toReversed().map(([name, params]) => {
    const flags = Object.entries(params).map(
      ([param, value]) => `--param ${shellWord(`${param}=${plainText(value)}`)}`,
    );
    return `  ${printableWithin(command(name, flags), longestText)}`;
  });
  return lines.length === 0 ? [] : ['To try what its records lead to:', ...lines];
}

function endingText(next: TriedStep | null, { entity, maxCalls }: Shown, width: number): readonly string[] {
  if (next === null) return ['No call was made.'];
  switch (next.kind) {
    case 'call':
      return [
        ...callText('next', entity, next.request.params, width),
        `${counted(maxCalls, 'call')} made (--max-calls); a sync would continue with the next one.`,
      ];
    case 'end':
      return ['The listing was read to its end.'];
    case 'set-aside':
      return [`${marks.failed} A sync would leave this listing and read the others.`];
    case 'stop':
      return [`${marks.failed} A sync would stop here.`];
  }
}

/** `list tickets cursor=abc limit=50`, each value cut. */
function callText(label: string, { name }: Entity, params: Params, width: number): readonly string[] {
  const given = Object.entries(params).map(([param, value]) => `${param}=${valueText(value)}`);
  return fact(label, ['list', name, ...given].join(' '), width).map((line) => line.slice(2));
}

function valueText(value: JsonValue): string {
  return printableWithin(plainText(value).slice(0, longestText), 60);
}

function plainText(value: JsonValue): string {
  return typeof value === 'string' ? value : wholeJson(value);
}

function namesText(names: readonly string[]): string {
  const more = names.length > mostNamed ? ` and ${names.length - mostNamed} more` : '';
  return `${names
    .slice(0, mostNamed)
    .map((name) => printableWithin(name, 40))
    .join(', ')}${more}`;
}

/** What was decided about the next page, and what the answer has about it. */
function pagingText(entity: Entity, { page, commit, next }: TriedCall): string {
  if (commit === null && next.kind === 'call') return 'the call failed, and is made again for fewer records';
  const facts = page === null || commit === null ? [] : factsOf(entity, page, commit.fetched);
  const { kind } = entity.pagination;
  const isSaid = page?.next?.hasMore === true;
  const isCut = page?.isCut === true && !isSaid;
  const why =
    next.kind === 'call' && next.restartedBecause === null
      ? continuing[isCut ? 'cut' : isSaid ? 'pageToken' : kind]
      : stepText(next);
  return [why, ...facts].join('; ');
}

/** Why another call follows an answer. */
const unsaid = 'the answer does not say whether it is the last page, so another call follows';
const continuing = {
  pageToken: 'more follows: the answer says so',
  offset: unsaid,
  page: unsaid,
  lastRecord: unsaid,
  cut: 'the answer says that the service ended the listing early: it is read on from its other end',
  single: 'the answer counts more records than it has, so it is asked for once more',
} as const;

/** What comes after a call, as the sync's own code decided. */
export function stepText(next: TriedStep): string {
  switch (next.kind) {
    case 'call':
      return next.restartedBecause === null
        ? 'the listing continues'
        : `the listing begins again: ${next.restartedBecause}`;
    case 'end':
      return endText(next.seal);
    case 'set-aside':
      return `a sync would leave this listing and read the others: ${next.failure.message}`;
    case 'stop':
      return `a sync would stop: ${next.error.message}`;
  }
}

type Seal = Extract<TriedStep, { kind: 'end' }>['seal'];

function endText({ proof, lastPage, doubt }: Seal): string {
  if (doubt !== undefined) return `the end, part missing: ${doubtText(doubt)}`;
  const short =
    lastPage === undefined ? '' : `, because ${count(lastPage.records)} of ${count(lastPage.size)} came`;
  const order =
    proof.isOrdered || proof.isCounted === true ? '' : ', unconfirmed: in an order that is not known';
  switch (proof.kind) {
    case 'single':
      return `the end: the first page has everything${short}`;
    case 'token':
      return `the end: the answer says so${short}${order}`;
    case 'seam':
    case 'keyset':
      return `the end: nothing follows${short}${order}`;
  }
}

/** What the page itself says. */
function factsOf(
  { pagination }: Entity,
  { next, total }: NonNullable<TriedCall['page']>,
  records: number,
): readonly string[] {
  const came =
    pagination.kind === 'single' || pagination.maxSize === null
      ? []
      : [`${count(records)} of up to ${count(pagination.maxSize)} records came`];
  const named = total === undefined ? [] : [`the total is ${count(total)}`];
  if (next === null) return [...came, ...named];
  const flag = next.hasMore === null ? [] : [`the flag for more is ${next.hasMore}`];
  const token = next.token === null ? 'no token' : `the token is ${printableWithin(next.token, 40)}`;
  return [...flag, token, ...named];
}

const widestCell = 24;
/** Of a key: it is what other commands ask for. */
const widestKey = 36;
/** More of a value is not read to make a cell. */
const longestCell = 200;

interface Room {
  /** Records at most. */
  readonly rows: number;
  readonly width: number;
}

/**
 * Records as the rows that they would be: keys first, then as many columns as there is room for, JSON last, each cell
 * cut. The other columns are named below.
 */
function rowsText(
  { columns, key }: EntityTable,
  records: readonly PreparedRecord[],
  { rows, width }: Room,
): readonly string[] {
  const shown = records.slice(0, rows);
  if (shown.length === 0) return [];
  const all = columns.map(({ name, type }, index) => ({
    name,
    isKey: key.includes(name),
    isJson: type === 'object' || type === 'array' || type === 'any',
    cells: shown.map(({ values }) =>
      cutToWidth(cellText(type, values[index] ?? null), key.includes(name) ? widestKey : widestCell),
    ),
  }));
  const empty = all.filter(({ cells }) => cells.every((cell) => cell === ''));
  const filled = all.filter((column) => !empty.includes(column));
  const keysFirst = [
    ...filled.filter(({ isKey }) => isKey),
    ...filled.filter(({ isKey, isJson }) => !isKey && !isJson),
    ...filled.filter(({ isKey, isJson }) => !isKey && isJson),
  ];
  let room = width - 2;
  const fitting = keysFirst.filter(({ name, isKey, cells }) => {
    const needed = Math.max(displayWidth(name), ...cells.map(displayWidth)) + columnGap;
    if (needed > room + columnGap && !isKey) return false;
    room -= needed;
    return true;
  });
  const left = keysFirst.filter((column) => !fitting.includes(column)).map(({ name }) => name);
  const more = records.length - shown.length;
  return [
    ...indentedTable(
      leftColumns(...fitting.map(({ name }) => name)),
      shown.map((_, row) => fitting.map(({ cells }) => cells[row] ?? '')),
      width,
    ),
    ...(more === 0 ? [] : fact('', `and ${counted(more, 'more record')}`, width)),
    ...(left.length === 0 ? [] : fact('besides', left.join(', '), width)),
    ...(empty.length === 0 ? [] : fact('empty', empty.map(({ name }) => name).join(', '), width)),
  ];
}

function cellText(type: FieldType, value: ColumnValue): string {
  if (value === null) return '';
  if (type === 'boolean') return value === 0 ? 'false' : 'true';
  return printable(String(value).slice(0, longestCell));
}
