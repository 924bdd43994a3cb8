import { html, type SafeHtml } from '@remix-run/html-template';
import { type Explanation, explainRow } from '../app/explain-row.ts';
import {
  equalTo,
  plainText,
  type readRecord,
  readRows,
  type RecordsWorld,
  relativesOf,
  type ShownValue,
} from '../app/shown-records.ts';
import { wholeJson } from '../core/canonical-json.ts';
import { SyncError } from '../core/errors.ts';
import { isJsonArray, type JsonValue } from '../core/json.ts';
import { type EntityTarget, targetsOfConnector } from '../settings/choices.ts';
import type { LocalSettings } from '../settings/settings.ts';
import type { RowVersion } from '../sinks/sink-access.ts';
import { count, counted, printable, printableWithin } from '../telemetry/format.ts';
import { explanationFacts, purgedText } from '../wording/connector-text.ts';
import { actLink, type PageWorld } from './layout.ts';
import { facts, moment, state } from './page-parts.ts';

type OpenRecord = Awaited<ReturnType<typeof readRecord>>;
type Values = ReadonlyMap<string, JsonValue>;

interface Given extends RecordsWorld {
  readonly settings: LocalSettings;
  readonly target: EntityTarget;
  readonly world: PageWorld;
}

/** A stored record, how it came to be as it is, and the texts that the terminal has for it, by their names. */
interface Explained extends Given {
  readonly open: OpenRecord;
  readonly explanation: Explanation;
  readonly told: ReadonlyMap<string, string>;
}

const root = '../../';
/** Characters of a value in the history. */
const charsOfDifference = 200;

/**
 * A record beside the rows: its values, why it is deleted or missing, its history, and the records above and below it.
 * `close`: the address without it; `whole`: that of all of a value, which the name of a column ends.
 */
export async function recordPane(
  given: Given,
  open: OpenRecord,
  { close, whole }: { readonly close: string; readonly whole: string },
): Promise<SafeHtml> {
  const { target, program } = given;
  const { explanation, purged } = await explainRow(target, open.keyText, charsOfDifference);
  const title = printableWithin(keyTitle(open), 60);
  const pane = (look: SafeHtml | string, content: SafeHtml): SafeHtml =>
    html`<aside class="panel record" id="record" aria-label="Record ${title}">
      <header class="toolbar">
        <h1>${title}</h1>
        ${look}<a class="btn low end" href="${close}">Close</a>
      </header>
      ${content}
    </aside>`;
  if (open.record === null || explanation === null) {
    const why = purged === null ? 'No record with this key is stored.' : `It ${purgedText(purged)}`;
    return pane('', html`<p role="status">${printable(why)}</p>`);
  }
  const told = new Map(explanationFacts(target, explanation, program));
  const explained = { ...given, open, explanation, told };
  const copied =
    open.sql &&
    html`<div>
      <button type="button" class="low" data-copy="#record-sql" hidden>Copy as SQL</button
      ><code id="record-sql" class="unseen">${open.sql} LIMIT 1</code>
    </div>`;
  return pane(
    rowState(explanation),
    html`${whySection(explained)} ${valuesSection(explained, whole)} ${historySection(explained)}
    ${await originSection(explained)} ${copied ?? ''}`,
  );
}

/** A record's key as people read it. */
export function keyTitle({ key }: { readonly key: Values }): string {
  return [...key.values()].map(plainText).join(' · ');
}

/** The address of a record; `from`: that of the overview. */
export function recordAddress(from: string, { name }: EntityTarget, key: Values): string {
  return `${from}data/${name}?${new URLSearchParams(keyQuery(key)).toString()}`;
}

/** The key of an open record, as parts of an address. */
export function keyQuery(key: Values): [string, string][] {
  return [...key].map(([name, value]) => [`key.${name}`, plainText(value)]);
}

function rowState({ row, withheld }: Explanation): SafeHtml {
  if (row.deletedAt !== null) return state('bad', 'Deleted');
  if (withheld > 0) return state('warn part', 'Delete waits');
  return row.missing === null ? state('ok', 'Stored') : state('warn late', 'Looks deleted');
}

function whySection({ target, world, told, explanation }: Explained): SafeHtml | string {
  const { row, withheld } = explanation;
  const { deletedAt, missing } = row;
  if (deletedAt === null && missing === null) return '';
  // The act beside it stands for the command.
  const [looks = ''] = (told.get('looks deleted') ?? '').split('; to delete:');
  const of = { connector: target.connector.name };
  const act = actLink(world, root, ['allow-deletes', 'Review deletes…'], of, 'low');
  const run = html`<a class="btn low" href="${root}runs/${row.changedByRun}">Open the run</a>`;
  const why =
    deletedAt === null
      ? sentence(looks, world.nowMs)
      : html`It was marked deleted ${moment(deletedAt, world.nowMs)}:
        ${sentence(told.get('why') ?? '', world.nowMs)} The values are the last ones seen.`;
  return html`<div>
    <h2>${deletedAt === null ? 'Why it looks deleted' : 'Why it is deleted'}</h2>
    <p>${why}</p>
    <div class="acts">${withheld > 0 ? act : ''}${run}</div>
  </div>`;
}

/** A text of the terminal with its times as pages write them, and a full stop. */
function sentence(text: string, nowMs: number): SafeHtml {
  const parts = printable(text.replace(/\.?$/, '.')).split(/(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/);
  return html`${parts.map((part, index) => (index % 2 === 1 ? moment(Date.parse(part), nowMs) : part))}`;
}

// --- Values

function valuesSection({ open, world }: Explained, whole: string): SafeHtml {
  const { record, masked, columns, hasMask } = open;
  const isEmpty = (name: string): boolean => !masked.has(name) && (record?.get(name)?.[0] ?? null) === null;
  const names = hasMask ? columns : [...columns, '_extra'];
  const empty = columns.filter(isEmpty).map(printable).join(', ');
  const filled = names
    .filter((name) => !isEmpty(name))
    .map((name) => {
      const text = masked.has(name) ? maskedText : valueText(name, record?.get(name), whole, world.nowMs);
      return [printable(name), text] as const;
    });
  return html`<div>
    <h2>Values</h2>
    ${facts([...filled, ['No value', empty === '' ? null : html`<span class="soft">${empty}</span>`]])}
  </div>`;
}

/** Stands in place of a value that a rule of a mask covers. */
export const maskedText = html`<span class="soft">masked in the config</span>`;

const mostOfLine = 160;

function valueText(name: string, [value, size]: ShownValue = [null, 0], whole: string, nowMs: number) {
  if (value === null) return '';
  if (value === '') return html`<span class="soft">empty text</span>`;
  const text = plainText(value);
  const isNested = typeof value === 'object';
  if (!isNested && size === 0 && text.length <= mostOfLine) return scalarText(value, nowMs, mostOfLine);
  const chars = `${count(size || text.length)} characters`;
  const parts = isJsonArray(value)
    ? `list, ${counted(value.length, 'item')}`
    : `object, ${counted(Object.keys(value).length, 'field')}`;
  const all = html`<p>
    <a href="${whole}&whole=${encodeURIComponent(name)}" download>All ${chars}</a>
  </p>`;
  return html`<details>
    <summary>${size === 0 && isNested ? parts : chars}</summary>
    <pre>${printable(text)}</pre>
    ${size === 0 ? '' : all}
  </details>`;
}

/** A single value of at most `most` characters; a time as pages write times. */
export function scalarText(value: ShownValue[0], nowMs: number, most: number): SafeHtml | string {
  const text = plainText(value);
  const isTime = typeof value === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]{5,15}(Z|[+-]\d\d:?\d\d)$/.test(text);
  return isTime && !Number.isNaN(Date.parse(text))
    ? moment(Date.parse(text), nowMs)
    : printableWithin(text, most);
}

// --- History

function historySection({ open: { masked, hasMask }, explanation: { row }, world }: Explained): SafeHtml {
  const { versions, deletedAt, changedAt, firstSeenAt } = row;
  const item = (at: string, content: SafeHtml): SafeHtml =>
    html`<li><span class="soft">${moment(at, world.nowMs)}</span><span>${content}</span></li>`;
  const isHidden = (name: string): boolean => masked.has(name) || (name === '_extra' && hasMask);
  const last =
    deletedAt !== null
      ? item(deletedAt, deletedMark)
      : changedAt > firstSeenAt
        ? item(changedAt, html`last change`)
        : '';
  const items = versions?.map((version) => item(version.validFrom, versionText(version, isHidden)));
  const isWhole = versions?.at(-1)?.changed !== null;
  return html`<div>
    <h2>History</h2>
    <ul class="line slim">
      ${items ?? last} ${isWhole ? item(firstSeenAt, html`<span class="plus">first seen</span>`) : ''}
    </ul>
    ${versions === undefined ? html`<p class="soft">Earlier values are kept where the config has <code>history: true</code>.</p>` : ''}
  </div>`;
}

const deletedMark = html`<span class="minus">deleted</span>`;
const mostDifferences = 20;

function versionText(
  { isDeleted, changed, differences = [] }: RowVersion,
  isHidden: (name: string) => boolean,
): SafeHtml {
  if (isDeleted) return deletedMark;
  if (changed === null) return html`<span class="plus">the first version that is kept</span>`;
  if (differences.length === 0) {
    return html`came back as it was, or changed beyond the first ${String(charsOfDifference)} characters`;
  }
  const more = differences.length - mostDifferences;
  return html`${differences.slice(0, mostDifferences).map(({ name, before, after }, index) => {
    const change = isHidden(name)
      ? maskedText
      : html`<del>${printable(before ?? 'no value')}</del> → <ins>${printable(after ?? 'no value')}</ins>`;
    return html`${index === 0 ? '' : html`<br />`}<code>${printable(name)}</code> ${change}`;
  })}
  ${more > 0 ? html`<br />and ${count(more)} more` : ''}`;
}

// --- Where it came from

async function originSection({ open, explanation: { row }, told, ...given }: Explained): Promise<SafeHtml> {
  const { target, settings, world } = given;
  const { above, below } = relativesOf(target, open.record ?? new Map());
  const belongs = above.map(
    ({ target: parent, values }) =>
      html`<a href="${recordAddress(root, parent, values)}"
        >${parent.table.entity} ${printableWithin(keyTitle({ key: values }), 40)}</a
      > `,
  );
  const led = await Promise.all(
    below.slice(0, mostBelow).map(async ({ target: child, values }) => {
      const address = `${root}data/${child.name}?filter=${encodeURIComponent(filterText(values))}`;
      const rows = await rowsBelow(given, child, values);
      return html`<a href="${address}">${rows}${child.table.entity}</a> `;
    }),
  );
  const published = targetsOfConnector(settings, target.connector.name).map(
    ({ name }) => html`<a href="${root}targets/${name}">${name}</a> `,
  );
  const changedAt = moment(row.changedAt, world.nowMs);
  const some = (links: SafeHtml[]) => (links.length === 0 ? null : html`${links}`);
  return html`<div>
    <h2>Where it came from</h2>
    ${facts([
      ['Listing', html`<code>${told.get('listing') ?? ''}</code>`],
      ['Last read', row.deletedAt === null ? sentence(told.get('why') ?? '', world.nowMs) : null],
      ['Run', html`<a href="${root}runs/${row.changedByRun}">run that wrote it ${changedAt}</a>`],
      ['Belongs to', some(belongs)],
      ['Leads to', some(led)],
      ['Published to', some(published)],
    ])}
  </div>`;
}

const mostBelow = 8;
const mostCounted = 100;

/** Their number, or nothing where it is not known in time. */
async function rowsBelow(given: RecordsWorld, child: EntityTarget, values: Values): Promise<string> {
  const asked = { which: 'stored', mostChars: 1, limit: mostCounted, columns: child.table.key } as const;
  try {
    const { rows, next } = await readRows(given, child, { ...asked, filter: equalTo(values) });
    return `${count(rows.length)}${next === null ? '' : ' or more'} `;
  } catch (error) {
    if (error instanceof SyncError) return '';
    throw error;
  }
}

/** As a person would type it, where that is clear. */
function filterText(values: Values): string {
  const parts = [...values].map(([name, value]) => `${name} = ${plainText(value)}`);
  return parts.every((part) => /^[\w-]+ = [\w.@:/-]+$/.test(part))
    ? parts.join(' and ')
    : wholeJson(equalTo(values));
}
