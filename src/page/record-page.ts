import { html, type SafeHtml } from '@remix-run/html-template';
import { type Explanation, explainRow } from '../app/explain-row.ts';
import {
  plainText,
  type readRecord,
  readRows,
  type RecordsWorld,
  relativesOf,
  type ShownValue,
  sqlOf,
} from '../app/shown-records.ts';
import { wholeJson } from '../core/canonical-json.ts';
import { SyncError } from '../core/errors.ts';
import { isJsonArray, isJsonObject, type JsonObject, type JsonValue } from '../core/json.ts';
import { type EntityTarget, targetsOfConnector } from '../settings/choices.ts';
import type { LocalSettings } from '../settings/settings.ts';
import type { RowVersion } from '../sinks/readings.ts';
import { count, counted, printable, printableWithin } from '../telemetry/format.ts';
import { explanationFacts, purgedText } from '../wording/connector-text.ts';
import { actLink, facts, moment, type PageWorld, state } from './layout.ts';

export type OpenRecord = Awaited<ReturnType<typeof readRecord>>;

interface Given extends RecordsWorld {
  readonly settings: LocalSettings;
  readonly target: EntityTarget;
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
  world: PageWorld,
): Promise<SafeHtml> {
  const { target } = given;
  const { record, keyText, table } = open;
  const title = printableWithin(keyTitle(open), 60);
  const { explanation, purged } = await explainRow(target, keyText, charsOfDifference);
  const look = explanation === null ? '' : rowState(explanation);
  const filter = { and: [...open.key].map(([name, value]) => ({ eq: { [name]: value } })) };
  const sql = record === null ? null : sqlOf(target, table, { which: 'all', filter, limit: 1 });
  return html`<aside class="panel record" id="record" aria-label="Record ${title}">
    <header class="toolbar">
      <h1>${title}</h1>
      ${look}<a class="btn low end" href="${close}">Close</a>
    </header>
    ${
      record === null || explanation === null
        ? html`<p role="status">
            ${purged === null ? 'No record with this key is stored.' : printable(`It ${purgedText(purged)}`)}
          </p>`
        : html`${whySection(given, explanation, world)} ${valuesSection(open, target, whole, world)}
          ${historySection(explanation, open, world)} ${await originSection(given, open, explanation, world)}`
    }
    ${
      sql === null
        ? ''
        : html`<div>
            <button type="button" class="low" data-copy="#record-sql" hidden>Copy as SQL</button
            ><code id="record-sql" class="unseen">${sql}</code>
          </div>`
    }
  </aside>`;
}

/** A record's key as people read it. */
export function keyTitle({ key }: Pick<OpenRecord, 'key'>): string {
  return [...key.values()].map(plainText).join(' · ');
}

function rowState({ row }: Explanation): SafeHtml {
  if (row.deletedAt !== null) return state('bad', 'Deleted');
  return row.missing === null ? state('ok', 'Stored') : state('warn late', 'Looks deleted');
}

function whySection(
  { target, program }: Given,
  explanation: Explanation,
  world: PageWorld,
): SafeHtml | string {
  const { row } = explanation;
  if (row.deletedAt === null && row.missing === null) return '';
  const told = new Map(explanationFacts(target, explanation, program));
  const isWithheld = row.missing?.needs === 'nothing';
  // The act beside it stands for the command.
  const [missing = ''] = (told.get('looks deleted') ?? '').split('; to delete them:');
  const act = actLink(
    world,
    root,
    ['allow-deletes', 'Allow deletes once…'],
    { connector: target.connector.name },
    'low',
  );
  return html`<div>
    <h2>${row.deletedAt === null ? 'Why it looks deleted' : 'Why it is deleted'}</h2>
    <p>
      ${row.deletedAt === null ? sentence(missing, world.nowMs) : html`It was marked deleted ${moment(row.deletedAt, world.nowMs)}: ${sentence(told.get('why') ?? '', world.nowMs)} The values are the last ones seen.`}
    </p>
    <div class="acts">
      ${isWithheld ? act : ''}<a class="btn low" href="${root}runs/${row.changedByRun}">Open the run</a>
    </div>
  </div>`;
}

/** A text of the terminal with its times as pages write them, and a full stop. */
function sentence(text: string, nowMs: number): SafeHtml {
  const parts = printable(text.replace(/\.?$/, '.')).split(/(\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(?:\.\d+)?Z)/);
  return html`${parts.map((part, index) => (index % 2 === 1 ? moment(Date.parse(part), nowMs) : part))}`;
}

// --- Values

function valuesSection(
  { record, masked, table }: OpenRecord,
  { table: of, connector, entity }: EntityTarget,
  whole: string,
  { nowMs }: PageWorld,
): SafeHtml {
  const names = [...new Set([...of.columns, ...(table?.columns ?? [])].map(({ name }) => name))];
  const extra = connector.masks.has(entity.name) ? null : (record?.get('_extra') ?? null);
  const shown = (name: string, value: ShownValue = [null, 0]) =>
    [printable(name), masked.has(name) ? maskedText : valueText(name, value, whole, nowMs)] as const;
  const isEmpty = (name: string): boolean => !masked.has(name) && (record?.get(name)?.[0] ?? null) === null;
  const empty = names.filter(isEmpty).map(printable).join(', ');
  return html`<div>
    <h2>Values</h2>
    ${facts([
      ...names.filter((name) => !isEmpty(name)).map((name) => shown(name, record?.get(name))),
      extra === null || extra[0] === null ? ['', null] : shown('_extra', extra),
      ['No value', empty === '' ? null : html`<span class="soft">${empty}</span>`],
    ])}
  </div>`;
}

/** Stands in place of a value that a rule of a mask covers. */
export const maskedText = html`<span class="soft">masked in the config</span>`;

const mostOfLine = 160;

function valueText(name: string, [value, size]: ShownValue, whole: string, nowMs: number): SafeHtml | string {
  if (value === null) return '';
  if (value === '') return html`<span class="soft">empty text</span>`;
  const isNested = typeof value === 'object';
  const text = plainText(value);
  if (!isNested && size === 0 && text.length <= mostOfLine) return scalarText(value, nowMs, mostOfLine);
  const all = html`<p>
    <a href="${whole}&whole=${encodeURIComponent(name)}" download>All ${count(size)} characters</a>
  </p>`;
  return html`<details>
    <summary>${size === 0 ? partsText(value) : `${count(size)} characters`}</summary>
    <pre>${printable(text)}</pre>
    ${size === 0 ? '' : all}
  </details>`;
}

function partsText(value: NonNullable<JsonValue>): string {
  if (isJsonArray(value)) return `list, ${counted(value.length, 'item')}`;
  return isJsonObject(value)
    ? `object, ${counted(Object.keys(value).length, 'field')}`
    : `${count(plainText(value).length)} characters`;
}

/** A single value of at most `most` characters; a time as pages write times. */
export function scalarText(value: ShownValue[0], nowMs: number, most: number): SafeHtml | string {
  if (value === null) return '';
  const text = plainText(value);
  const isTime = typeof value === 'string' && /^\d{4}-\d\d-\d\dT[\d:.]{5,15}(Z|[+-]\d\d:?\d\d)$/.test(text);
  return isTime && !Number.isNaN(Date.parse(text))
    ? moment(Date.parse(text), nowMs)
    : printableWithin(text, most);
}

// --- History

function historySection(
  { row }: Explanation,
  { masked, hasMask }: OpenRecord,
  { nowMs }: PageWorld,
): SafeHtml {
  const { versions } = row;
  const item = (at: string, content: SafeHtml): SafeHtml =>
    html`<li><span class="soft">${moment(Date.parse(at), nowMs)}</span><span>${content}</span></li>`;
  const isHidden = (name: string): boolean => masked.has(name) || (name === '_extra' && hasMask);
  const items =
    versions === undefined
      ? [
          ...(row.deletedAt === null ? [] : [item(row.deletedAt, html`<span class="minus">deleted</span>`)]),
          ...(row.deletedAt === null && row.changedAt > row.firstSeenAt
            ? [item(row.changedAt, html`last change`)]
            : []),
        ]
      : versions.map((version) => item(version.validFrom, versionText(version, isHidden)));
  const isWhole = versions === undefined || versions.at(-1)?.changed !== null;
  return html`<div>
    <h2>History</h2>
    <ul class="line slim">
      ${items} ${isWhole ? item(row.firstSeenAt, html`<span class="plus">first seen</span>`) : ''}
    </ul>
    ${versions === undefined ? html`<p class="soft">Earlier values are kept where the config has <code>history: true</code>.</p>` : ''}
  </div>`;
}

const mostDifferences = 20;

function versionText(
  { isDeleted, changed, differences = [] }: RowVersion,
  isHidden: (name: string) => boolean,
) {
  if (isDeleted) return html`<span class="minus">deleted</span>`;
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

async function originSection(
  given: Given,
  { record }: OpenRecord,
  explanation: Explanation,
  world: PageWorld,
) {
  const { target, settings, program } = given;
  const { name } = target.connector;
  const { row } = explanation;
  const told = new Map(explanationFacts(target, explanation, program));
  const { above, below } = relativesOf(target, record ?? new Map());
  const targets = targetsOfConnector(settings, name);
  const led = await Promise.all(
    below.slice(0, mostBelow).map(async ({ target: child, values }) => {
      const rows = await rowsBelow(given, child, values);
      return html`<a
        href="${root}data/${name}/${child.table.entity}?filter=${encodeURIComponent(filterText(values))}"
        >${rows}${child.table.entity}</a
      > `;
    }),
  );
  const belongs = above.map(({ target: parent, values }) => {
    const key = new URLSearchParams(
      [...values].map(([part, value]): [string, string] => [`key.${part}`, plainText(value)]),
    );
    return html`<a href="${root}data/${name}/${parent.table.entity}?${key.toString()}"
      >${parent.table.entity} ${printableWithin([...values.values()].map(plainText).join(' · '), 40)}</a
    > `;
  });
  return html`<div>
    <h2>Where it came from</h2>
    ${facts([
      ['Listing', html`<code>${told.get('listing') ?? ''}</code>`],
      ['Last read', sentence(told.get('why') ?? '', world.nowMs)],
      [
        'Run',
        html`<a href="${root}runs/${row.changedByRun}"
          >run that wrote it ${moment(row.changedAt, world.nowMs)}</a
        >`,
      ],
      ['Belongs to', belongs.length === 0 ? null : html`${belongs}`],
      ['Leads to', led.length === 0 ? null : html`${led}`],
      [
        'Published to',
        targets.length === 0
          ? null
          : html`${targets.map((one) => html`<a href="${root}targets/${one.name}">${one.name}</a> `)}`,
      ],
    ])}
  </div>`;
}

const mostBelow = 8;
const mostCounted = 100;

/** Their number, or nothing where it is not known in time. */
async function rowsBelow(
  given: Given,
  child: EntityTarget,
  values: ReadonlyMap<string, JsonValue>,
): Promise<string> {
  const filter = equals(values);
  const asked = { which: 'stored', since: '', mostChars: 1, filter, limit: mostCounted } as const;
  try {
    const { rows, next } = await readRows(given, child, { ...asked, columns: child.table.key });
    return `${count(rows.length)}${next === null ? '' : ' or more'} `;
  } catch (error) {
    if (error instanceof SyncError) return '';
    throw error;
  }
}

function equals(values: ReadonlyMap<string, JsonValue>): JsonObject {
  return { and: [...values].map(([name, value]) => ({ eq: { [name]: value } })) };
}

/** As a person would type it, where that is clear. */
function filterText(values: ReadonlyMap<string, JsonValue>): string {
  const parts = [...values].map(([name, value]) => `${name} = ${plainText(value)}`);
  return parts.every((part) => /^[\w-]+ = [\w.@:/-]+$/.test(part))
    ? parts.join(' and ')
    : wholeJson(equals(values));
}
