import { isJsonObject, type JsonValue } from '../../../core/json.ts';
import type { FieldDrift, Params } from '../../../core/records.ts';
import type { Definition, Entity } from '../../../definitions/definition.ts';
import { wholeJson } from '../../../engine/prepare/canonical-json.ts';
import type { TriedCall, TriedStep } from '../../../engine/try-listing.ts';
import type { SeenExchange } from '../../../http/exchange.ts';
import { counted, duration, printable, printableWithin, sizeText } from '../../../telemetry/format.ts';
import { shellWord } from '../../environment.ts';
import { fact } from '../../output/facts.ts';
import { indentedTable, leftColumns } from '../../output/text-table.ts';
import { marks } from '../check/check-result.ts';
import { declarationOf } from '../schema.ts';
import { pagingText } from './paging-text.ts';
import { rowsText } from './rows-text.ts';

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
