import { html, type SafeHtml } from '@remix-run/html-template';
import { overviewOf, type SinkOverview } from '../app/connector-states.ts';
import { plainText, readRecord, readRefused, readRows, readStoredState } from '../app/shown-records.ts';
import {
  readTypedFilter,
  type RecordsWorld,
  type ShownRecord,
  type ShownValue,
} from '../app/shown-records.ts';
import { instant } from '../core/clock.ts';
import { wholeJson } from '../core/canonical-json.ts';
import { SyncError, usage } from '../core/errors.ts';
import { type EntityTarget, targetsOf } from '../settings/choices.ts';
import type { ConnectorSettings, LocalSettings } from '../settings/settings.ts';
import { count, counted, printable, printableWithin } from '../telemetry/format.ts';
import { entityTree } from './connector-page.ts';
import { age, callout, facts, head, hiddenFields, maySeeValues, moment, page } from './layout.ts';
import { type PageWorld, searchBox, state, table, type TableColumn } from './layout.ts';
import { keyQuery, keyTitle, maskedText, recordAddress, recordPane, scalarText } from './record-page.ts';

interface Asked extends RecordsWorld {
  readonly settings: LocalSettings;
  readonly target: EntityTarget;
  readonly query: DataQuery;
}

interface Given extends Asked {
  readonly stored: Awaited<ReturnType<typeof readStoredState>>;
  readonly world: PageWorld;
}

type Overviews = ReadonlyMap<string, SinkOverview>;

const root = '../../';
const rowsOfPage = 50;
const charsOfCell = 200;
/** Characters of a value of the open record, and of one that is read as a whole. */
const charsOfValue = 4_000;
const mostOfWhole = 32 * 1024 * 1024;

/** Connectors with their rows, to pick one. */
export function dataListPage({ connectors }: LocalSettings, overviews: Overviews, world: PageWorld): string {
  const rows = [...connectors.values()].slice(0, mostConnectors).map((connector) => {
    const overview = overviewOf(overviews, connector);
    const oldest = overview?.freshness.map(({ asOf }) => asOf ?? '').toSorted()[0] ?? '';
    return [
      html`<a href="./data?connector=${connector.name}">${connector.name}</a>`,
      connector.definition.title,
      count(overview?.rows ?? 0),
      age(oldest === '' ? null : oldest, world.nowMs),
    ];
  });
  const more = connectors.size - rows.length;
  const main = html`${head('Data', 'Choose the connector whose records you want to see.')}
  ${table('Connectors', ['connector', ['of', 'o'], ['rows', 'num'], ['data age', 'num']], rows, 'go')}
  ${more > 0 ? html`<p class="soft">and ${count(more)} more: find them by name above</p>` : ''}`;
  return page({ title: 'Data', root: './', at: 'data', main, isLive: false }, world);
}

const mostConnectors = 200;

/** Rows of an entity with their values, and the open record; without the right to see values its columns. */
export async function dataPage(asked: Asked, world: PageWorld) {
  const { target, query } = asked;
  const { connector, table: of } = target;
  const given = { ...asked, stored: await readStoredState(connector), world };
  const isShown = maySeeValues(world);
  const open =
    isShown && query.key.size > 0 ? await readRecord(asked, target, query.key, charsOfValue) : null;
  const { status, list } = isShown ? await rowsList(given) : { status: 200, list: columnsList(given) };
  const close = addressOf(query, { key: new Map() });
  const pane = open && (await recordPane(given, open, { close, whole: addressOf(query, {}) }));
  const main = html`<div class="browse ${open === null ? '' : 'open'}">
    ${entitiesAside(given)}
    <div class="list">${entityHead(given, open !== null)} ${list}</div>
    ${pane ?? ''}
  </div>`;
  const name = open === null ? '' : `${printableWithin(keyTitle(open), 60)} · `;
  const title = `${name}${of.entity} of ${connector.name}`;
  return { status, text: page({ title, root, at: 'data', main, isLive: false }, world) };
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
  const placed = placedEntities(connector, await readStoredState(connector));
  const first = placed.find(({ status }) => (status?.rows ?? 0) > 0) ?? placed[0];
  if (first === undefined) throw usage(`The connector ${connector.name} reads no entity.`);
  return { name: connector.name, entity: first.entity };
}

/** Entities that are read or have rows, those that others lead to below them. */
function placedEntities(connector: ConnectorSettings, stored: Given['stored']) {
  const names = new Set(targetsOf(connector).map(({ table: of }) => of.entity));
  return entityTree(connector, stored).filter(({ entity }) => names.has(entity));
}

function entitiesAside({ settings, target: { connector, table: of }, stored }: Given): SafeHtml {
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
      ${placedEntities(connector, stored).map(({ entity, depth, status }) => {
        const address = `${root}data/${connector.name}/${entity}`;
        const here = entity === of.entity ? html`aria-current="page"` : '';
        const rows = html`<span class="soft">${count(status?.rows ?? 0)}</span>`;
        return html`<li>
          <a class="${depth > 0 ? 'in' : ''}" href="${address}" ${here}>${entity} ${rows}</a>
        </li>`;
      })}
    </ul>
  </aside>`;
}

const mostOptions = 200;

function statusOf({ stored: { status } }: Given, entity: string) {
  return status?.entities.find((one) => one.entity === entity);
}

const completenessStates = {
  complete: state('ok', 'Complete'),
  unconfirmed: state('idle', 'Unconfirmed'),
  'part-missing': state('warn part', 'Part missing'),
  'not-yet': state('idle', 'Not read yet'),
} as const;

function entityHead(given: Given, isBeside: boolean): SafeHtml {
  const { connector, entity, table: of } = given.target;
  const asOf = given.stored.freshness.find((one) => one.entity === entity.name)?.asOf ?? null;
  const completeness = statusOf(given, entity.name)?.completeness ?? 'not-yet';
  const soft = html`${counted(statusOf(given, of.entity)?.rows ?? 0, 'row')} of
    <a href="${root}connectors/${connector.name}">${connector.name}</a> · data age
    ${age(asOf, given.world.nowMs)} · ${completenessStates[completeness]}`;
  if (!isBeside) return head(of.entity, soft);
  return html`<div class="head">
    <div>
      <h2 class="title">${of.entity}</h2>
      <p class="soft">${soft}</p>
    </div>
  </div>`;
}

/** The names and types of the columns, and why no values are there. */
function columnsList({ target: { table: of }, world }: Given): SafeHtml {
  const rows = of.columns.map(({ name, type }) => [name, type, of.key.includes(name) ? 'key' : '']);
  return html`${noValues(world)} ${table(`Columns of ${of.entity}`, ['column', 'type', ''], rows)}`;
}

/** Names the right that is missing. */
function noValues({ visitor }: PageWorld): SafeHtml {
  const why = html`<p>
    Values are not shown: the token “${visitor?.name ?? ''}” lacks the right <code>data</code>. Who may change
    the config grants it in <code>http.tokens</code>, such as <code>may: [pages, data]</code>.
  </p>`;
  return callout('', 'Values', why);
}

// --- Rows

/** The rows that are asked for, or the problem with them, below what chooses them. */
async function rowsList(given: Given) {
  const { query, target, world } = given;
  const { rows: which, sort, cursor } = query;
  try {
    if (which === 'refused') return { status: 200, list: await refusedList(given) };
    const filter = readTypedFilter(target, query.filter);
    const columns = askedColumns(target, query.columns);
    const since = instant(world.nowMs).slice(0, 10);
    const asked = { which, since, mostChars: charsOfCell, sort, cursor, columns, filter } as const;
    const found = await readRows(given, target, { ...asked, limit: rowsOfPage });
    const shown = query.columns.length > 0 ? query.columns : columnsAtFirst(target, columns, found.rows);
    const rows =
      found.rows.length > 0
        ? html`${rowsTable(given, shown, found)} ${afterRows(given, found)}`
        : html`<p class="soft" role="status">No such rows.</p>`;
    return { status: 200, list: html`${toolbar(given, { ...found, shown })} ${whichChips(given)} ${rows}` };
  } catch (error) {
    if (!(error instanceof SyncError)) throw error;
    const isAsked = error.code === 'USAGE' || error.code === 'SEARCH_INVALID';
    const message = html`<p role="alert">${printable(error.message)}</p>`;
    const columns = target.table.columns.map(({ name }) => name);
    const list = html`${toolbar(given, { columns, shown: query.columns, sql: null })} ${whichChips(given)}
    ${callout(isAsked ? 'warn' : 'bad', 'Problem', message)}`;
    return { status: isAsked ? 400 : 503, list };
  }
}

type FoundRows = Awaited<ReturnType<typeof readRows>>;

/** The key and the chosen columns; at first those that hold one value each. */
function askedColumns({ table: of }: EntityTarget, chosen: readonly string[]): readonly string[] {
  const plain = of.columns.filter(({ type }) => type !== 'object' && type !== 'array' && type !== 'any');
  const names = chosen.length > 0 ? chosen : plain.slice(0, mostAsked).map(({ name }) => name);
  return [...new Set([...of.key, ...names])];
}

const mostAsked = 40;
const mostAtFirst = 8;

/** The key, then columns of which some row has a value. */
function columnsAtFirst({ table: { key } }: EntityTarget, asked: readonly string[], rows: FoundRows['rows']) {
  const isFilled = (name: string): boolean => rows.some((row) => (row.get(name)?.[0] ?? '') !== '');
  const names = asked.filter((name) => key.includes(name) || isFilled(name));
  return names.slice(0, Math.max(mostAtFirst, key.length));
}

interface Toolbar extends Pick<FoundRows, 'columns' | 'sql'> {
  readonly shown: readonly string[];
}

function toolbar({ query }: Given, { columns, shown, sql }: Toolbar): SafeHtml {
  const { filter, rows, sort } = query;
  const filterBox = searchBox('filter', 'Filter', {
    class: 'grow mono',
    value: filter,
    placeholder: 'words, or status = paid and total > 100',
    maxlength: '2000',
    spellcheck: 'false',
  });
  return html`<form class="toolbar" role="search" aria-label="Filter">
      ${filterBox} ${hiddenFields({ rows: rows === 'stored' ? '' : rows, sort })}
      <details class="menu o">
        <summary>Columns</summary>
        <div>
          ${columns.slice(0, mostColumns).map((name) => {
            const checked = shown.includes(name) ? html`checked` : '';
            return html`<label
              ><input type="checkbox" name="column" value="${name}" ${checked} /> ${printable(name)}</label
            >`;
          })}
          <button class="low">Show these</button>
        </div>
      </details>
      ${sql === null ? '' : html`<button type="button" class="o" data-copy="#sql" hidden>Copy as SQL</button>`}
    </form>
    ${sql === null ? '' : html`<code id="sql" class="unseen">${sql} LIMIT ${rowsOfPage}</code>`}`;
}

const mostColumns = 300;

function whichChips(given: Given): SafeHtml {
  const { query, target } = given;
  const { rows, deleted, missing, quarantined } = statusOf(given, target.table.entity) ?? noRows;
  const counts = { stored: rows, changed: null, deleted, missing, refused: quarantined };
  return html`<nav class="chips" aria-label="Which rows">
    ${kinds.map(([kind, title]) => {
      const here = kind === query.rows ? html`aria-current="true"` : '';
      const number = counts[kind];
      const text = number === null ? '' : html`<span class="soft">${count(number)}</span>`;
      return html`<a
        class="chip"
        href="${addressOf(query, { rows: kind, cursor: '', key: new Map() })}"
        ${here}
        >${title} ${text}</a
      >`;
    })}
  </nav>`;
}

const noRows = { rows: 0, deleted: 0, missing: 0, quarantined: 0 };

function rowsTable(
  { target: { table: of }, query, world: { nowMs } }: Given,
  columns: readonly string[],
  { rows, masked }: FoundRows,
): SafeHtml {
  // The last part of a key is the record's own; those before it say where it belongs.
  const names = [...new Set([of.key.at(-1) ?? '', ...columns])];
  const [by, direction] = query.sort.split(/:(asc|desc)$/s);
  const titles = names.map((name, index): TableColumn => {
    const type = of.columns.find((one) => one.name === name)?.type;
    const isNumber = index > 0 && (type === 'integer' || type === 'number');
    const look = `${isNumber ? 'num' : ''} ${index > 2 ? 'o' : ''} ${index > 6 ? 'o2' : ''}`;
    const sort = `${name}:${by === name && direction === 'desc' ? 'asc' : 'desc'}`;
    const arrow = by !== name ? '' : direction === 'desc' ? ' ↓' : ' ↑';
    return [html`<a href="${addressOf(query, { sort, cursor: '' })}">${printable(name)}${arrow}</a>`, look];
  });
  const shown = rows.map((row) => {
    const key = keyOf(of.key, row);
    const isChosen = query.key.size > 0 && [...key].every(([name, text]) => query.key.get(name) === text);
    const deletedAt = row.get('_deleted_at')?.[0] ?? null;
    const at = moment(Date.parse(plainText(deletedAt ?? row.get('_changed_at')?.[0])), nowMs);
    const cells = names.map((name, index) => {
      const cell = masked.has(name) ? maskedCell : cellText(row.get(name), nowMs);
      if (index > 0) return cell;
      return html`<a href="${addressOf(query, { key })}#record"
        >${String(cell) === '' ? '(empty)' : cell}</a
      >`;
    });
    const when = deletedAt === null ? at : html`<span class="minus">deleted</span> ${at}`;
    return { cells: [...cells, when], look: deletedAt === null ? '' : 'gone', isChosen };
  });
  const changed: TableColumn = [query.rows === 'deleted' ? 'deleted' : 'changed here', 'o'];
  return table(`Rows of ${of.entity}`, [...titles, changed], shown, 'go');
}

function keyOf(names: readonly string[], row: ShownRecord): ReadonlyMap<string, string> {
  return new Map(names.map((name) => [name, plainText(row.get(name)?.[0])]));
}

const maskedCell = html`<span class="soft">masked</span>`;

const mostOfCell = 40;

function cellText([value]: ShownValue = [null, 0], nowMs: number): SafeHtml | string {
  if (typeof value !== 'object' || value === null) return scalarText(value, nowMs, mostOfCell);
  return html`<span class="mono">${printableWithin(wholeJson(value), mostOfCell)}</span>`;
}

function afterRows({ query }: Given, { rows, next }: FoundRows): SafeHtml {
  const by = query.sort.replace(/:(asc|desc)$/, '');
  const order = by === '' ? 'in the order of their arrival' : `in the order of ${printable(by)}`;
  const link = (name: string, changed: Partial<DataQuery>): SafeHtml =>
    html`<a class="btn low end" href="${addressOf(query, changed)}">${name}</a>`;
  return html`<div class="toolbar after">
    <span class="soft">${counted(rows.length, 'row')}, ${order}</span>
    ${query.cursor === '' ? '' : link('First', { cursor: '' })}
    ${next === null ? '' : link('Next', { cursor: next, key: new Map() })}
  </div>`;
}

/** Records that could not be stored, newest first: why, and the beginning of each where no mask covers the entity. */
async function refusedList(given: Given): Promise<SafeHtml> {
  const { connector, entity, table: of } = given.target;
  const refused = await readRefused(connector, of.entity, rowsOfPage);
  const isMasked = connector.masks.has(entity.name);
  const panels = refused.map(({ firstSeenAt, reason, detail, record }) => {
    const shown = facts([
      ['First seen', moment(firstSeenAt, given.world.nowMs)],
      ['Why', printable(`${reason}: ${detail}`)],
      ['Record', isMasked ? maskedText : html`<pre>${printable(record)}</pre>`],
    ]);
    return html`<section class="panel">${shown}</section>`;
  });
  const none = html`<p class="soft" role="status">Each record of ${of.entity} could be stored.</p>`;
  return html`${whichChips(given)} ${panels.length === 0 ? none : panels}`;
}

// --- Addresses

/** The part of an address that says which rows are shown, and how; `key`: of the open record, empty: none. */
type DataQuery = ReturnType<typeof readDataQuery>;

/** The address of this page with another part of its query; `key` opens a record. */
function addressOf(query: DataQuery, changed: Partial<DataQuery>): string {
  const { filter, rows, sort, cursor, columns, key } = { ...query, ...changed };
  const parts = Object.entries({ filter, rows: rows === 'stored' ? '' : rows, sort, cursor });
  const chosen = columns.map((name): [string, string] => ['column', name]);
  const given = [...parts.filter(([, value]) => value !== ''), ...chosen];
  return `?${new URLSearchParams([...given, ...keyQuery(key)]).toString()}`;
}

const kinds = [
  ['stored', 'All'],
  ['changed', 'Changed today'],
  ['deleted', 'Deleted'],
  ['missing', 'Look deleted'],
  ['refused', 'Not storable'],
] as const;
const mostChosen = 40;

/** Reads the query of an address; what is invalid counts as absent. */
export function readDataQuery(query: URLSearchParams) {
  const first = (name: string, most: number): string => query.get(name)?.slice(0, most) ?? '';
  const key: ReadonlyMap<string, string> = new Map(
    [...query].flatMap(([name, value]) => (name.startsWith('key.') ? [[name.slice(4), value]] : [])),
  );
  return {
    filter: first('filter', 2_000),
    rows: kinds.find(([name]) => name === query.get('rows'))?.[0] ?? 'stored',
    sort: first('sort', 200),
    cursor: first('cursor', 10_000),
    columns: [...new Set(query.getAll('column'))].slice(0, mostChosen),
    key,
  };
}

// --- Connectors and records by a text

type Found = readonly [target: EntityTarget, record: ShownRecord];

/** Connectors whose name has the text, and, with the right to see values, records with it as their key or a word. */
export async function findPage(
  { connectors }: LocalSettings,
  overviews: Overviews,
  text: string,
  records: RecordsWorld,
  world: PageWorld,
): Promise<string> {
  const names = [...connectors.keys()].filter((name) => name.includes(text.toLowerCase()));
  const isShown = maySeeValues(world);
  const all = [...connectors.values()]
    .filter((connector) => (overviewOf(overviews, connector)?.rows ?? 0) > 0)
    .flatMap((connector) => targetsOf(connector).filter(({ entity }) => connector.entities.has(entity.name)));
  const { found, looked } = isShown ? await findRecords(all, text, records) : { found: [], looked: 0 };
  const title = names.length + found.length === 0 ? 'Nothing found for' : 'Found for';
  const where = `Looked in ${counted(looked, 'entity', 'entities')} of ${count(all.length)} with rows.`;
  const more = names.length - mostNames;
  const namesList = html`<h2>Connectors</h2>
    <ul>
      ${names.slice(0, mostNames).map((name) => html`<li><a href="./connectors/${name}">${name}</a></li>`)}
    </ul>
    ${more > 0 ? html`<p class="soft">and ${count(more)} more</p>` : ''}`;
  const recordsList = html`<h2>Records</h2>
    ${table('Records', ['record', 'of', ['values', 'cut']], found.map(foundRow), 'go')}`;
  const main = html`${head(`${title} “${printableWithin(text, 60)}”`, isShown ? where : '')}
  ${names.length === 0 ? '' : namesList} ${found.length === 0 ? '' : recordsList}
  ${isShown ? '' : noValues(world)}`;
  return page({ title: 'Find', root: './', at: null, main, isLive: false }, world);
}

const mostNames = 20;
const charsOfFound = 60;

function foundRow([target, record]: Found): readonly (SafeHtml | string)[] {
  const { table: of, name } = target;
  const key = keyOf(of.key, record);
  const values = of.columns.flatMap(({ name: column }) => {
    const value = record.get(column)?.[0] ?? null;
    return key.has(column) || value === null || typeof value === 'object' ? [] : [String(value)];
  });
  return [
    html`<a href="${recordAddress('./', target, key)}"
      >${printableWithin(keyTitle({ key }), charsOfFound)}</a
    >`,
    name,
    printable(values.slice(0, 5).join(', ')),
  ];
}

const withinMs = 5_000;
const mostByKey = 100;
const mostByWord = 16;
const mostOfEntity = 5;
const atOnce = 4;

/** First by key, which is quick; by words where no key is the text. */
async function findRecords(all: readonly EntityTarget[], text: string, given: RecordsWorld) {
  const late = AbortSignal.timeout(withinMs);
  const records = { ...given, signal: AbortSignal.any([given.signal, late]) };
  // The words get the rest of the time.
  const half = AbortSignal.timeout(withinMs / 2);
  const withOneKey = all.filter(({ table: { key } }) => key.length === 1).slice(0, mostByKey);
  const byKey = await inTurns(withOneKey, half, async (target) => {
    const key = new Map([[target.table.key[0] ?? '', text]]);
    const { record } = await readRecord(records, target, key, charsOfFound);
    return record === null ? [] : [record];
  });
  if (byKey.found.length > 0) return byKey;
  // Words alone: neither JSON nor a comparison.
  const words = text.replace(/[{}=<>!]/g, ' ');
  const asked = { which: 'stored', mostChars: charsOfFound, limit: mostOfEntity } as const;
  const byWord = await inTurns(all.slice(0, mostByWord), late, async (target) => {
    const filter = readTypedFilter(target, words);
    return (await readRows(records, target, { ...asked, filter })).rows;
  });
  return { found: byWord.found, looked: Math.max(byKey.looked, byWord.looked) };
}

/** A few at once, until the time is up; those that cannot be searched are passed over. */
async function inTurns(
  targets: readonly EntityTarget[],
  until: AbortSignal,
  find: (target: EntityTarget) => Promise<readonly ShownRecord[]>,
) {
  const found: Found[] = [];
  let looked = 0;
  const waiting = targets.values();
  const take = async (): Promise<void> => {
    for (const target of waiting) {
      if (until.aborted) return;
      try {
        found.push(...(await find(target)).map((record) => [target, record] as const));
        looked += 1;
      } catch (error) {
        if (!(error instanceof SyncError) && !until.aborted) throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: atOnce }, take));
  return { found, looked };
}
