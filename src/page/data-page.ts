import { html, type SafeHtml } from '@remix-run/html-template';
import { entityTree } from '../app/connector-history.ts';
import { overviewOf, type SinkOverview } from '../app/connector-states.ts';
import {
  keyFlag,
  plainText,
  readAllRefused,
  readRecord,
  readRefused,
  readRows,
  readStoredState,
  readTypedFilter,
  type RecordsWorld,
  type ShownRecord,
  type ShownValue,
} from '../app/shown-records.ts';
import { explainRows } from '../app/explain-row.ts';
import { recordKey } from '../app/stored-fields.ts';
import { explanationFacts } from '../wording/connector-text.ts';
import { instant } from '../core/clock.ts';
import { wholeJson } from '../core/canonical-json.ts';
import { SyncError, usage } from '../core/errors.ts';
import { grouped } from '../core/grouped.ts';
import { firstNames } from '../definitions/suggest-name.ts';
import { type EntityTarget, targetsOf } from '../settings/choices.ts';
import type { ConnectorSettings, LocalSettings } from '../settings/settings.ts';
import type { ConnectorOverview } from '../sinks/sink-access.ts';
import { count, counted, printable, printableWithin } from '../telemetry/format.ts';
import { completenessOf } from './connector-page.ts';
import { maySeeValues, page, type PageWorld } from './layout.ts';
import {
  age,
  callout,
  chips,
  type Column,
  facts,
  head,
  hiddenFields,
  moment,
  reasonCell,
  searchBox,
  state,
  table,
  unreadableSinks,
} from './page-parts.ts';
import { keyQuery, keyTitle, maskedText, recordAddress, recordPane, scalarText } from './record-page.ts';

interface Asked extends RecordsWorld {
  readonly settings: LocalSettings;
  readonly target: EntityTarget;
  readonly query: DataQuery;
  readonly overview: ConnectorOverview | null;
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
  const shown = [...connectors.values()].slice(0, mostConnectors);
  const more = connectors.size - shown.length;
  const columns: readonly Column<ConnectorSettings>[] = [
    ['connector', ({ name }) => html`<a href="./data?connector=${name}">${name}</a>`],
    ['of', ({ definition }) => definition.title, 'o'],
    ['rows', (one) => count(overviewOf(overviews, one)?.rows ?? 0), 'num'],
    [
      'data age',
      (one) => {
        const known = overviewOf(overviews, one)?.freshness.map(({ asOf }) => asOf ?? '');
        return age(known?.toSorted()[0] || null, world.nowMs);
      },
      'num',
    ],
  ];
  const main = html`${head('Data', 'Choose the connector whose records you want to see.')}
    ${table('Connectors', columns, shown, { look: 'go' })}
    ${more > 0 ? html`<p class="soft">and ${count(more)} more: find them by name above</p>` : ''}
    <p class="after"><a href="./data?rows=refused">All refused records</a></p>`;
  return page({ title: 'Data', root: './', at: 'data', main, isLive: false }, world);
}

const mostConnectors = 200;

/** Refused records of these connectors: how many, and the newest of each, with their content for who may see values. */
export async function refusedPage(
  settings: LocalSettings,
  connectors: readonly ConnectorSettings[],
  world: PageWorld,
): Promise<string> {
  const { found, unreadable } = await readAllRefused(settings, connectors);
  const number = found.reduce((sum, one) => sum + one.number, 0);
  const sections = found.map(({ connector, entity, number: all, records }) => {
    const address = `./data/${connector.name}/${entity}?rows=refused`;
    return html`<h2><a href="${address}">${connector.name}/${entity}</a></h2>
      <p class="soft">
        ${counted(all, 'record')}${all > records.length ? `, the newest ${records.length}` : ''}
      </p>
      ${refusedPanels(records, connector.masks.has(entity), world)}`;
  });
  const soft =
    'Records that could not be stored, kept as they came. The rows stored before stay as they were.';
  const main = html`${head(number === 0 ? 'No record was refused' : `${counted(number, 'record')} refused`, soft)}
  ${unreadableSinks(unreadable)} ${number === 0 || maySeeValues(world) ? '' : noValues(world)} ${sections}`;
  return page({ title: 'Refused records', root: './', at: 'data', main, isLive: false }, world);
}

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

function statusOf({ stored: { status }, target }: Given) {
  return status?.entities.find(({ entity }) => entity === target.table.entity);
}

function entityHead(given: Given, isBeside: boolean): SafeHtml {
  const { target, stored, world } = given;
  const { connector, entity, table: of } = target;
  const asOf = stored.freshness.find((one) => one.entity === entity.name)?.asOf ?? null;
  const completeness = entityTree(connector, stored)
    .filter((one) => one.entity === of.entity)
    .map((one) => completenessOf(one, { ...given, connector, running: null, past: { runs: [] } }, world));
  const soft = html`${counted(statusOf(given)?.rows ?? 0, 'row')} of
    <a href="${root}connectors/${connector.name}">${connector.name}</a> · data age ${age(asOf, world.nowMs)}
    ${completeness.map(([look, word]) => html`· ${state(look, word)}`)}`;
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
  const columns: readonly Column<(typeof of.columns)[number]>[] = [
    ['column', ({ name }) => name],
    ['type', ({ type }) => type],
    ['', ({ name }) => (of.key.includes(name) ? 'key' : '')],
  ];
  return html`${noValues(world)} ${table(`Columns of ${of.entity}`, columns, of.columns)}`;
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
  const { rows: which, cursor } = query;
  const sort = sortOf(query);
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
        ? html`${await rowsTable(given, shown, found)} ${afterRows(given, found)}`
        : html`<p class="soft" role="status">${shownCount(given, found)}.</p>`;
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
  const { query } = given;
  const counts = countsOf(given);
  const links = kinds.map(([kind, title]) => {
    const address = addressOf(query, { rows: kind, cursor: '', key: new Map() });
    return [address, title, kind === query.rows, counts[kind]] as const;
  });
  // Numbers are those without the filter.
  return chips('Which rows', links, query.filter === '' ? '' : 'of ');
}

/** Rows of each kind, whatever the filter; null: not known. */
function countsOf(given: Given) {
  const { rows = 0, deleted = 0, missing = 0, quarantined = 0 } = statusOf(given) ?? {};
  return { stored: rows, changed: null, deleted, missing, refused: quarantined };
}

async function rowsTable(
  { target, query, world: { nowMs }, program }: Given,
  columns: readonly string[],
  { rows, masked }: FoundRows,
): Promise<SafeHtml> {
  const of = target.table;
  // The last part of a key is the record's own; those before it say where it belongs.
  const names = [...new Set([of.key.at(-1) ?? '', ...columns])];
  const [by, direction] = sortOf(query).split(/:(asc|desc)$/s);
  const isDeleted = query.rows === 'deleted';
  const whyOf = isDeleted ? await deletedBecause(target, rows, program) : null;
  const title = (name: string, text: string): SafeHtml => {
    const sort = `${name}:${by === name && direction === 'desc' ? 'asc' : 'desc'}`;
    const arrow = by !== name ? '' : direction === 'desc' ? ' ↓' : ' ↑';
    return html`<a href="${addressOf(query, { sort, cursor: '' })}">${printable(text)}${arrow}</a>`;
  };
  const isChosen = (row: ShownRecord): boolean =>
    query.key.size > 0 && [...keyOf(of.key, row)].every(([name, text]) => query.key.get(name) === text);
  const ofValues = names.map((name, index): Column<ShownRecord> => {
    const type = of.columns.find((one) => one.name === name)?.type;
    const isNumber = index > 0 && (type === 'integer' || type === 'number');
    const isHidden = index > (isDeleted ? 1 : 2);
    const cell = (row: ShownRecord): SafeHtml | string => {
      const text = masked.has(name) ? maskedCell : cellText(row.get(name), nowMs);
      if (index > 0) return text;
      const address = `${addressOf(query, { key: keyOf(of.key, row) })}#record`;
      return html`<a href="${address}">${String(text) === '' ? '(empty)' : text}</a>`;
    };
    const look = `${isNumber ? 'num' : ''} ${isHidden ? 'o' : ''} ${index > 6 ? 'o2' : ''}`;
    return [title(name, name), cell, look];
  });
  const when = (row: ShownRecord): SafeHtml => {
    const deletedAt = deletedAtOf(row);
    return deletedAt === null
      ? moment(Date.parse(plainText(row.get('_changed_at')?.[0])), nowMs)
      : html`<span class="minus">deleted</span> ${moment(deletedAt, nowMs)}`;
  };
  const all: readonly Column<ShownRecord>[] = [
    ...ofValues,
    [title(changeNumber, isDeleted ? 'deleted' : 'changed here'), when, isDeleted ? '' : 'o'],
    ...(whyOf === null
      ? []
      : [['why', (row: ShownRecord) => reasonCell(whyOf.get(row) ?? '', true), 'cut o'] as const]),
  ];
  const row = (one: ShownRecord): string => (deletedAtOf(one) === null ? '' : 'gone');
  return table(`Rows of ${of.entity}`, all, rows, { look: 'go', row, isChosen });
}

/** Why each of the rows is deleted: such as that the service answered 404, or that it left its listing. */
async function deletedBecause(target: EntityTarget, rows: readonly ShownRecord[], program: string) {
  const keys = rows.map((row) => recordKey(target.table, keyOf(target.table.key, row), keyFlag).keyText);
  const found = await explainRows(target, keys);
  return new Map(
    rows.map((row, index) => {
      const explanation = found[index] ?? null;
      const facts = explanation === null ? [] : explanationFacts(target, explanation, program);
      return [row, new Map(facts).get('why') ?? ''] as const;
    }),
  );
}

function deletedAtOf(row: ShownRecord): number | null {
  const text = plainText(row.get('_deleted_at')?.[0]);
  return text === '' ? null : Date.parse(text);
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

/** Number of the rows of the filter, of how many, and whether there are more. */
function shownCount(given: Given, { rows, next }: FoundRows): string {
  const { filter, cursor, rows: which } = given.query;
  const all = countsOf(given)[which];
  if (all === null || (filter === '' && rows.length === all)) return counted(rows.length, 'row');
  const more = filter !== '' && next !== null ? ' and more' : '';
  return `${cursor === '' ? '' : 'here '}${count(rows.length)}${more} of ${counted(all, 'row')}`;
}

function afterRows(given: Given, found: FoundRows): SafeHtml {
  const { query } = given;
  const [by = '', direction] = sortOf(query).split(/:(asc|desc)$/s);
  const order =
    by === changeNumber
      ? `${direction === 'desc' ? 'newest' : 'oldest'} first`
      : by === ''
        ? 'in the order of their arrival'
        : `in the order of ${printable(by)}`;
  const link = (name: string, changed: Partial<DataQuery>): SafeHtml =>
    html`<a class="btn low end" href="${addressOf(query, changed)}">${name}</a>`;
  return html`<div class="toolbar after">
    <span class="soft">${shownCount(given, found)}, ${order}</span>
    ${query.cursor === '' ? '' : link('First', { cursor: '' })}
    ${found.next === null ? '' : link('Next', { cursor: found.next, key: new Map() })}
  </div>`;
}

/** Records that could not be stored, newest first. */
async function refusedList(given: Given): Promise<SafeHtml> {
  const { connector, entity, table: of } = given.target;
  const refused = await readRefused(connector, of.entity, rowsOfPage);
  const none = html`<p class="soft" role="status">Each record of ${of.entity} could be stored.</p>`;
  const panels = refusedPanels(refused, connector.masks.has(entity.name), given.world);
  return html`${whichChips(given)} ${refused.length === 0 ? none : panels}`;
}

/** Why each could not be stored and, for who may see values, the beginning of each where no mask covers the entity. */
function refusedPanels(
  refused: Awaited<ReturnType<typeof readRefused>>,
  isMasked: boolean,
  world: PageWorld,
): SafeHtml {
  const maySee = maySeeValues(world);
  return html`${refused.map(({ firstSeenAt, reason, detail, record }) => {
    const shown = facts([
      ['First seen', moment(firstSeenAt, world.nowMs)],
      ['Why', printable(maySee ? `${reason}: ${detail}` : reason)],
      ['Record', !maySee ? null : isMasked ? maskedText : html`<pre>${printable(record)}</pre>`],
    ]);
    return html`<section class="panel">${shown}</section>`;
  })}`;
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

/** The column by which the newest change comes first. */
const changeNumber = '_seq';

function sortOf({ sort, rows }: DataQuery): string {
  return sort === '' && (rows === 'deleted' || rows === 'changed') ? `${changeNumber}:desc` : sort;
}

const kinds = [
  ['stored', 'All'],
  ['changed', 'Changed today'],
  ['deleted', 'Deleted'],
  ['missing', 'Look deleted'],
  ['refused', 'Refused'],
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

// --- Connectors, targets and records by a text

type Found = readonly [target: EntityTarget, record: ShownRecord];

/** Connectors and targets by name, and, with the right to see values, records with the text as their key or a word. */
export async function findPage(
  { connectors, publish }: LocalSettings,
  text: string,
  records: RecordsWorld,
  world: PageWorld,
): Promise<string> {
  const namesList = (title: string, folder: string, all: Iterable<string>): SafeHtml | '' => {
    const names = [...all].filter((name) => name.toLowerCase().includes(text.toLowerCase()));
    const more = names.length - mostNames;
    return names.length === 0
      ? ''
      : html`<h2>${title}</h2>
          <ul>
            ${names.slice(0, mostNames).map((name) => html`<li><a href="./${folder}/${name}">${name}</a></li>`)}
          </ul>
          ${more > 0 ? html`<p class="soft">and ${count(more)} more</p>` : ''}`;
  };
  const lists = html`${namesList('Connectors', 'connectors', connectors.keys())}
  ${namesList('Targets', 'targets', publish.keys())}`;
  const isShown = maySeeValues(world);
  const all = [...connectors.values()].flatMap((connector) =>
    targetsOf(connector).filter(({ entity }) => connector.entities.has(entity.name)),
  );
  const { found, notes } = isShown ? await findRecords(all, text, records) : { found: [], notes: [] };
  const title = found.length === 0 && String(lists).trim() === '' ? 'Nothing found for' : 'Found for';
  const recordsList = html`<h2>Records</h2>
    ${table('Records', foundColumns(world.nowMs), found, { look: 'go', row: ([, one]) => (deletedAtOf(one) === null ? '' : 'gone') })}`;
  const main = html`${head(`${title} “${printableWithin(text, 60)}”`, notes.join(' '))} ${lists}
  ${found.length === 0 ? '' : recordsList} ${isShown ? '' : noValues(world)}`;
  return page({ title: 'Find', root: './', at: null, main, isLive: false }, world);
}

const mostNames = 20;
const charsOfFound = 60;

function foundColumns(nowMs: number): readonly Column<Found>[] {
  const link = ([target, record]: Found): SafeHtml => {
    const key = keyOf(target.table.key, record);
    const title = printableWithin(keyTitle({ key }), charsOfFound);
    return html`<a href="${recordAddress('./', target, key)}">${title}</a>`;
  };
  const values = ([{ table: of }, record]: Found): SafeHtml => {
    const texts = of.columns.flatMap(({ name }) => {
      const value = record.get(name)?.[0] ?? null;
      return of.key.includes(name) || value === null || typeof value === 'object' ? [] : [String(value)];
    });
    const deletedAt = deletedAtOf(record);
    const deleted =
      deletedAt === null ? '' : html`<span class="minus">deleted</span> ${moment(deletedAt, nowMs)} `;
    return html`${deleted}${printable(texts.slice(0, 5).join(', '))}`;
  };
  return [
    ['record', link],
    ['of', ([{ name }]) => name],
    ['values', values, 'cut'],
  ];
}

const withinMs = 5_000;
const mostByKey = 100;
const mostByWord = 60;
const mostOfEntity = 5;
const atOnce = 4;

/** First by key, which is quick; by words where no key is the text. `notes`: where it was looked for, in words. */
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
  if (byKey.found.length > 0) {
    return { found: byKey.found, notes: ['These records have it as their key; words were not looked for.'] };
  }
  // Words alone: neither JSON nor a comparison.
  const words = text.replace(/[{}=<>!]/g, ' ');
  const asked = { mostChars: charsOfFound, limit: mostOfEntity } as const;
  const byWord = (which: 'stored' | 'deleted') =>
    inTurns(all.slice(0, mostByWord), late, async (target) => {
      const filter = readTypedFilter(target, words);
      return (await readRows(records, target, { ...asked, which, filter })).rows;
    });
  const [stored, deleted] = [await byWord('stored'), await byWord('deleted')];
  const more = all.slice(mostByWord).map(({ name }) => name);
  const left = [
    ...stored.left,
    ...deleted.left
      .filter(([name]) => !stored.left.some(([known]) => known === name))
      .map(([name, why]) => [`deleted rows of ${name}`, why] as const),
    ...more.map((name) => [name, `only the first ${mostByWord} are searched for words.`] as const),
  ];
  const number = all.length - stored.left.length - more.length;
  const looked = `Looked in ${count(number)} of ${counted(all.length, 'entity', 'entities')}.`;
  const why = [...grouped(left, ([, reason]) => reason)].map(
    ([reason, some]) =>
      `Not in ${firstNames(
        some.map(([name]) => name),
        5,
      )}: ${printableWithin(reason, 200)}`,
  );
  return { found: [...stored.found, ...deleted.found], notes: [looked, ...why] };
}

/** A few at once, until the time is up. `left`: where it could not be looked for, and why. */
async function inTurns(
  targets: readonly EntityTarget[],
  until: AbortSignal,
  find: (target: EntityTarget) => Promise<readonly ShownRecord[]>,
) {
  const found: Found[] = [];
  const left: (readonly [name: string, why: string])[] = [];
  const waiting = targets.values();
  const take = async (): Promise<void> => {
    for (const target of waiting) {
      try {
        until.throwIfAborted();
        found.push(...(await find(target)).map((record) => [target, record] as const));
      } catch (error) {
        if (until.aborted) left.push([target.name, 'the time was up.']);
        else if (!(error instanceof SyncError)) throw error;
        // Nothing of it is stored, or its key is of another type.
        else if (error.code !== 'USAGE') left.push([target.name, error.message]);
      }
    }
  };
  await Promise.all(Array.from({ length: atOnce }, take));
  return { found, left };
}
