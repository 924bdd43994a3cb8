import { html, type SafeHtml } from '@remix-run/html-template';
import {
  readRecord,
  readRefused,
  readRows,
  readStoredState,
  plainText,
  readTypedFilter,
  type RecordsWorld,
  type ShownRecord,
  sqlOf,
  type Which,
} from '../app/shown-records.ts';
import { instant } from '../core/clock.ts';
import { wholeJson } from '../core/canonical-json.ts';
import { SyncError, usage } from '../core/errors.ts';
import type { FieldType } from '../core/records.ts';
import { type EntityTarget, targetsOf } from '../settings/choices.ts';
import type { ConnectorSettings, LocalSettings } from '../settings/settings.ts';
import type { EntityStatus } from '../sinks/ledger-reader.ts';
import { count, counted, printable, printableWithin } from '../telemetry/format.ts';
import {
  age,
  callout,
  facts,
  head,
  maySeeValues,
  moment,
  page,
  type PageWorld,
  state,
  table,
  type TableColumn,
} from './layout.ts';
import { keyTitle, maskedText, type OpenRecord, recordPane, scalarText } from './record-page.ts';

/** The part of an address that says which rows are shown, and how. */
export interface DataQuery {
  readonly filter: string;
  readonly rows: Which | 'refused';
  readonly sort: string;
  readonly cursor: string;
  readonly columns: readonly string[];
  /** The open record; empty: none. */
  readonly key: ReadonlyMap<string, string>;
}

interface Asked extends RecordsWorld {
  readonly settings: LocalSettings;
  readonly target: EntityTarget;
  readonly query: DataQuery;
}

interface Given extends Asked {
  readonly stored: Awaited<ReturnType<typeof readStoredState>>;
}

const root = '../../';
const rowsOfPage = 50;
const charsOfCell = 200;
/** Characters of a value of the open record, and of one that is read as a whole. */
const charsOfValue = 4_000;
const mostOfWhole = 32 * 1024 * 1024;

/** Rows of an entity with their values, and the open record; without the right to see values its columns. */
export async function dataPage(asked: Asked, world: PageWorld) {
  const { target, query } = asked;
  const { connector, table: of } = target;
  const isShown = maySeeValues(world);
  const given = { ...asked, stored: await readStoredState(connector) };
  const open = isShown && query.key.size > 0 ? await openRecord(given) : null;
  const rows = isShown ? await rowsList(given, world) : { status: 200, content: columnsList(target, world) };
  const pane =
    open === null
      ? ''
      : await recordPane(
          given,
          open,
          { close: addressOf(query, { key: new Map() }), whole: addressOf(query, {}) },
          world,
        );
  const name = open === null ? '' : `${printableWithin(keyTitle(open), 60)} · `;
  const main = html`<div class="browse ${open === null ? '' : 'open'}">
    ${entitiesAside(given)}
    <div class="list">${entityHead(given, open !== null, world)} ${rows.content}</div>
    ${pane}
  </div>`;
  const title = `${name}${of.entity} of ${connector.name}`;
  return { status: rows.status, text: page({ title, root, at: 'data', main, isLive: false }, world) };
}

async function openRecord(given: Asked): Promise<OpenRecord> {
  return await readRecord(given, given.target, given.query.key, charsOfValue);
}

/** All of one value of the open record, as text. Throws USAGE where there is none. */
export async function wholeValue({ query, target, ...records }: Asked, column: string): Promise<string> {
  const { record, masked, hasMask } = await readRecord(records, target, query.key, mostOfWhole);
  const isHidden = masked.has(column) || (column === '_extra' && hasMask);
  const [value = null] = (isHidden ? null : record?.get(column)) ?? [];
  if (value === null) throw usage('There is no such value.');
  return plainText(value);
}

/** The entity that is shown first of a connector: the first with rows. */
export async function firstEntity(connector: ConnectorSettings) {
  const { status } = await readStoredState(connector);
  const placed = placedTargets(connector, status?.entities ?? []);
  const first = placed.find(({ rows }) => rows > 0) ?? placed[0];
  if (first === undefined) throw usage(`The connector ${connector.name} reads no entity.`);
  return { name: connector.name, entity: first.name };
}

function entitiesAside({ settings, target, stored }: Given): SafeHtml {
  const { connector, table: of } = target;
  const names = [...settings.connectors.keys()];
  const near = names.length > mostOptions ? [connector.name] : names;
  return html`<aside class="side" aria-label="Entities">
    <form class="toolbar" action="${root}data">
      <label class="unseen" for="c">Connector</label
      ><select id="c" name="connector">
        ${near.map((name) => html`<option ${name === connector.name ? html`selected` : ''}>${name}</option>`)}
      </select>
      <button class="low">Open</button>
    </form>
    <ul>
      ${placedTargets(connector, stored.status?.entities ?? []).map(({ name, isBelow, rows }) => {
        const here = name === of.entity ? html`aria-current="page"` : '';
        return html`<li>
          <a class="${isBelow ? 'in' : ''}" href="${root}data/${connector.name}/${name}" ${here}
            >${name} <span class="soft">${count(rows)}</span></a
          >
        </li>`;
      })}
    </ul>
  </aside>`;
}

const mostOptions = 200;

/** Tables of a connector that are read or have rows, those that others lead to below them. */
export function placedTargets(connector: ConnectorSettings, statuses: readonly EntityStatus[]) {
  const rowsOf = (name: string): number => statuses.find(({ entity }) => entity === name)?.rows ?? 0;
  const all = targetsOf(connector).filter(
    ({ entity, table: { entity: name } }) => connector.entities.has(entity.name) || rowsOf(name) > 0,
  );
  const above = ({ entity, isExploded }: EntityTarget): string | null =>
    isExploded
      ? entity.name
      : (entity.parents.find((one) => connector.entities.has(one.entity))?.entity ?? null);
  const below = (name: string | null, met: ReadonlySet<string>): readonly EntityTarget[] =>
    all
      .filter((one) => above(one) === name && !met.has(one.table.entity))
      .flatMap((one) => [one, ...below(one.table.entity, new Set([...met, one.table.entity]))]);
  return below(null, new Set()).map((target) => {
    const name = target.table.entity;
    return { name, target, isBelow: above(target) !== null, rows: rowsOf(name) };
  });
}

function statusOf({ stored: { status }, target }: Given): EntityStatus | null {
  return status?.entities.find(({ entity }) => entity === target.table.entity) ?? null;
}

const completenessStates = {
  complete: state('ok', 'Complete'),
  unconfirmed: state('idle', 'Unconfirmed'),
  'part-missing': state('warn part', 'Part missing'),
  'not-yet': state('idle', 'Not read yet'),
} as const;

function entityHead(given: Given, isBeside: boolean, { nowMs }: PageWorld): SafeHtml {
  const { target, stored } = given;
  const { connector, entity, table: of } = target;
  const read = stored.freshness.find((one) => one.entity === entity.name);
  const completeness =
    stored.status?.entities.find((one) => one.entity === entity.name)?.completeness ?? 'not-yet';
  const soft = html`${counted(statusOf(given)?.rows ?? 0, 'row')} of
    <a href="${root}connectors/${connector.name}">${connector.name}</a> · data age
    ${age(read?.asOf ?? null, nowMs)} · ${completenessStates[completeness]}`;
  if (!isBeside) return head(of.entity, soft);
  return html`<div class="head">
    <div>
      <h2 class="title">${of.entity}</h2>
      <p class="soft">${soft}</p>
    </div>
  </div>`;
}

/** The names and types of the columns, and why no values are there. */
function columnsList({ table: of }: EntityTarget, { visitor }: PageWorld): SafeHtml {
  const rows = of.columns.map(({ name, type }) => [name, type, of.key.includes(name) ? 'key' : '']);
  return html`${noValues(visitor?.name ?? '')}
  ${table(`Columns of ${of.entity}`, ['column', 'type', ''], rows)}`;
}

/** Names the right that is missing. */
export function noValues(name: string): SafeHtml {
  return callout(
    '',
    'Values',
    html`<p>
      Values are not shown: the token “${name}” lacks the right <code>data</code>. Who may change the config
      grants it in <code>http.tokens</code>, such as <code>may: [pages, data]</code>.
    </p>`,
  );
}

// --- Rows

async function rowsList(given: Given, world: PageWorld) {
  const { query, target } = given;
  try {
    if (query.rows === 'refused') return { status: 200, content: await refusedList(given, world) };
    const filter = readTypedFilter(target, query.filter);
    const columns = askedColumns(target, query.columns);
    const read = { ...rowsAsked(query, world), limit: rowsOfPage, filter };
    const found = await readRows(given, target, { ...read, columns });
    const sql = sqlOf(target, found.table, read);
    const shown = query.columns.length > 0 ? query.columns : columnsAtFirst(target, columns, found.rows);
    const all = [
      ...new Set([...target.table.columns, ...(found.table?.columns ?? [])].map(({ name }) => name)),
    ];
    const content = html`${toolbar(given, { all, shown, sql })} ${whichChips(given)}
    ${
      found.rows.length === 0
        ? html`<p class="soft" role="status">No such rows.</p>`
        : html`${rowsTable(given, shown, found, world)}
            <div class="toolbar after">
              <span class="soft">${counted(found.rows.length, 'row')}${orderText(query)}</span>
              ${query.cursor === '' ? '' : html`<a class="btn low end" href="${addressOf(query, { cursor: '' })}">First</a>`}
              ${
                found.next === null
                  ? ''
                  : html`<a
                      class="btn low end"
                      href="${addressOf(query, { cursor: found.next, key: new Map() })}"
                      >Next</a
                    >`
              }
            </div>`
    }`;
    return { status: 200, content };
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    const isAsked = error.code === 'USAGE' || error.code === 'SEARCH_INVALID';
    const said = callout(
      isAsked ? 'warn' : 'bad',
      'Problem',
      html`<p role="alert">${printable(error.message)}</p>`,
    );
    const columns = target.table.columns.map(({ name }) => name);
    const parts = { all: columns, shown: query.columns, sql: null };
    return {
      status: isAsked ? 400 : 503,
      content: html`${toolbar(given, parts)} ${whichChips(given)} ${said}`,
    };
  }
}

function rowsAsked({ rows, sort, cursor }: DataQuery, { nowMs }: PageWorld) {
  const which: Which = rows === 'refused' ? 'stored' : rows;
  return { which, since: instant(nowMs).slice(0, 10), mostChars: charsOfCell, sort, cursor };
}

function orderText({ sort }: DataQuery): string {
  return sort === ''
    ? ', in the order of their arrival'
    : `, in the order of ${printable(sort.replace(/:(asc|desc)$/, ''))}`;
}

/** The key and the chosen columns; at first those that hold one value each. */
function askedColumns({ table: of }: EntityTarget, chosen: readonly string[]): readonly string[] {
  const plain = of.columns.filter(({ type }) => !isNested(type)).map(({ name }) => name);
  return [...new Set([...of.key, ...(chosen.length > 0 ? chosen : plain.slice(0, mostAsked))])];
}

const mostAsked = 40;
const mostAtFirst = 8;

/** The key, then columns of which some row has a value. */
function columnsAtFirst({ table: of }: EntityTarget, asked: readonly string[], rows: readonly ShownRecord[]) {
  const isFilled = (name: string): boolean => rows.some((row) => (row.get(name)?.[0] ?? '') !== '');
  return asked
    .filter((name) => of.key.includes(name) || isFilled(name))
    .slice(0, Math.max(mostAtFirst, of.key.length));
}

function isNested(type: FieldType): boolean {
  return type === 'object' || type === 'array' || type === 'any';
}

interface Shown {
  readonly all: readonly string[];
  readonly shown: readonly string[];
  readonly sql: string | null;
}

function toolbar({ query }: Given, { all, shown, sql }: Shown): SafeHtml {
  return html`<form class="toolbar" role="search" aria-label="Filter">
      <label class="unseen" for="filter">Filter</label
      ><input
        class="grow mono"
        id="filter"
        name="filter"
        type="search"
        value="${query.filter}"
        placeholder="words, or status = paid and total > 100"
        maxlength="2000"
        autocomplete="off"
        spellcheck="false"
      />
      ${query.rows === 'stored' ? '' : html`<input type="hidden" name="rows" value="${query.rows}" />`}
      ${query.sort === '' ? '' : html`<input type="hidden" name="sort" value="${query.sort}" />`}
      <details class="menu o">
        <summary>Columns</summary>
        <div>
          ${all
            .slice(0, mostColumns)
            .map(
              (name) =>
                html`<label
                  ><input
                    type="checkbox"
                    name="column"
                    value="${name}"
                    ${shown.includes(name) ? html`checked` : ''}
                  />
                  ${printable(name)}</label
                >`,
            )}
          <button class="low">Show these</button>
        </div>
      </details>
      ${sql === null ? '' : html`<button type="button" class="o" data-copy="#sql" hidden>Copy as SQL</button>`}
    </form>
    ${sql === null ? '' : html`<code id="sql" class="unseen">${sql}</code>`}`;
}

const mostColumns = 300;

function whichChips(given: Given): SafeHtml {
  const { query } = given;
  const status = statusOf(given);
  const chips: readonly (readonly [DataQuery['rows'], string, number | null])[] = [
    ['stored', 'All', status?.rows ?? 0],
    ['changed', 'Changed today', null],
    ['deleted', 'Deleted', status?.deleted ?? 0],
    ['missing', 'Look deleted', status?.missing ?? 0],
    ['refused', 'Not storable', status?.quarantined ?? 0],
  ];
  return html`<nav class="chips" aria-label="Which rows">
    ${chips.map(([rows, name, number]) => {
      const here = rows === query.rows ? html`aria-current="true"` : '';
      const text = number === null ? '' : html`<span class="soft">${count(number)}</span>`;
      return html`<a class="chip" href="${addressOf(query, { rows, cursor: '', key: new Map() })}" ${here}
        >${name} ${text}</a
      >`;
    })}
  </nav>`;
}

function rowsTable(
  { target, query }: Given,
  columns: readonly string[],
  { rows, masked }: Awaited<ReturnType<typeof readRows>>,
  { nowMs }: PageWorld,
): SafeHtml {
  const { table: of } = target;
  // The last part of a key is the record's own; those before it say where it belongs.
  const names = [...new Set([of.key.at(-1) ?? '', ...columns])];
  const looks = names.map((name, index) => {
    const type = of.columns.find((one) => one.name === name)?.type ?? 'any';
    const isNumber = type === 'integer' || type === 'number';
    return `${isNumber && index > 0 ? 'num' : ''} ${index > 2 ? 'o' : ''} ${index > 6 ? 'o2' : ''}`;
  });
  const titles = names.map((name, index): TableColumn => {
    const [by, direction] = query.sort.split(/:(asc|desc)$/s);
    const isBy = by === name;
    const next = addressOf(query, {
      sort: `${name}:${isBy && direction === 'desc' ? 'asc' : 'desc'}`,
      cursor: '',
    });
    const arrow = isBy ? (direction === 'desc' ? ' ↓' : ' ↑') : '';
    return [html`<a href="${next}">${printable(name)}${arrow}</a>`, looks[index] ?? ''];
  });
  const changed: TableColumn = [query.rows === 'deleted' ? 'deleted' : 'changed here', 'o'];
  const shown = rows.map((row) => {
    const key = new Map(of.key.map((name) => [name, plainText(row.get(name)?.[0])]));
    const isChosen = query.key.size > 0 && [...key].every(([name, text]) => query.key.get(name) === text);
    const deletedAt = row.get('_deleted_at')?.[0] ?? null;
    const at = plainText(deletedAt ?? row.get('_changed_at')?.[0]);
    const cells = names.map((name, index) => {
      const cell = masked.has(name) ? maskedCell : cellText(row, name, nowMs);
      return index > 0
        ? cell
        : html`<a href="${addressOf(query, { key })}#record">${String(cell) === '' ? '(empty)' : cell}</a>`;
    });
    const when =
      deletedAt === null
        ? moment(Date.parse(at), nowMs)
        : html`<span class="minus">deleted</span> ${moment(Date.parse(at), nowMs)}`;
    return { cells: [...cells, when], look: deletedAt === null ? '' : 'gone', isChosen };
  });
  return table(`Rows of ${of.entity}`, [...titles, changed], shown, 'go');
}

const maskedCell = html`<span class="soft">masked</span>`;

const mostOfCell = 40;

function cellText(row: ShownRecord, name: string, nowMs: number): SafeHtml | string {
  const [value, size] = row.get(name) ?? [null, 0];
  const isNested = typeof value === 'object' && value !== null;
  if (isNested) return html`<span class="mono">${printableWithin(wholeJson(value), mostOfCell)}</span>`;
  return size > 0 ? printableWithin(plainText(value), mostOfCell) : scalarText(value, nowMs, mostOfCell);
}

/** Records that could not be stored, newest first: why, and the beginning of each where no mask covers the entity. */
async function refusedList(given: Given, { nowMs }: PageWorld): Promise<SafeHtml> {
  const { connector, entity, table: of } = given.target;
  const refused = await readRefused(connector, of.entity, rowsOfPage);
  const isMasked = connector.masks.has(entity.name);
  const content =
    refused.length === 0
      ? html`<p class="soft" role="status">Each record of ${of.entity} could be stored.</p>`
      : html`${refused.map(
          ({ firstSeenAt, reason, detail, record }) =>
            html`<section class="panel">
              ${facts([
                ['First seen', moment(firstSeenAt, nowMs)],
                ['Why', printable(`${reason}: ${detail}`)],
                ['Record', isMasked ? maskedText : html`<pre>${printable(record)}</pre>`],
              ])}
            </section>`,
        )}`;
  return html`${whichChips(given)} ${content}`;
}

// --- Addresses

/** The address of this page with another part of its query; `key` opens a record. */
export function addressOf(query: DataQuery, changed: Partial<DataQuery>): string {
  const { filter, rows, sort, cursor, columns, key } = { ...query, ...changed };
  const parts = new URLSearchParams();
  for (const [name, value] of Object.entries({ filter, rows: rows === 'stored' ? '' : rows, sort, cursor })) {
    if (value !== '') parts.set(name, value);
  }
  for (const column of columns) parts.append('column', column);
  for (const [name, value] of key) parts.set(`key.${name}`, value);
  return `?${parts.toString()}`;
}

const kinds: ReadonlySet<string> = new Set(['stored', 'changed', 'deleted', 'missing', 'refused']);
const mostChosen = 40;

/** Reads the query of an address; what is invalid counts as absent. */
export function readDataQuery(query: unknown): DataQuery {
  const given = Object.entries(Object(query) as Readonly<Record<string, unknown>>).map(
    ([name, value]) => [name, (Array.isArray(value) ? value : [value]).map(String)] as const,
  );
  const first = (name: string, most: number): string =>
    given.find(([one]) => one === name)?.[1][0]?.slice(0, most) ?? '';
  const rows = first('rows', 20);
  return {
    filter: first('filter', 2_000),
    // `as`: it is one of them.
    rows: kinds.has(rows) ? (rows as DataQuery['rows']) : 'stored',
    sort: first('sort', 200),
    cursor: first('cursor', 10_000),
    columns: [...new Set(given.find(([name]) => name === 'column')?.[1] ?? [])].slice(0, mostChosen),
    key: new Map(
      given.flatMap(([name, [value = '']]) =>
        name.startsWith('key.') ? [[name.slice(4), value] as const] : [],
      ),
    ),
  };
}
