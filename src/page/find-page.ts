import { html, type SafeHtml } from '@remix-run/html-template';
import { overviewOf, type SinkOverview } from '../app/connector-states.ts';
import {
  plainText,
  readRecord,
  readRows,
  readTypedFilter,
  type RecordsWorld,
  type ShownRecord,
} from '../app/shown-records.ts';
import { SyncError } from '../core/errors.ts';
import { type EntityTarget, targetsOf } from '../settings/choices.ts';
import type { LocalSettings } from '../settings/settings.ts';
import { count, counted, printable, printableWithin } from '../telemetry/format.ts';
import { noValues } from './data-page.ts';
import { age, head, maySeeValues, page, type PageWorld, table } from './layout.ts';

type Overviews = ReadonlyMap<string, SinkOverview>;

const root = './';
const mostConnectors = 200;

/** Connectors with their rows, to pick one. */
export function dataListPage({ connectors }: LocalSettings, overviews: Overviews, world: PageWorld): string {
  const all = [...connectors.values()];
  const rows = all.slice(0, mostConnectors).map((connector) => {
    const overview = overviewOf(overviews, connector);
    const oldest = overview?.freshness.map(({ asOf }) => asOf ?? '').toSorted()[0] ?? '';
    return [
      html`<a href="${root}data?connector=${connector.name}">${connector.name}</a>`,
      connector.definition.title,
      count(overview?.rows ?? 0),
      age(oldest === '' ? null : oldest, world.nowMs),
    ];
  });
  const more = all.length - rows.length;
  const main = html`${head('Data', 'Choose the connector whose records you want to see.')}
  ${table('Connectors', ['connector', ['of', 'o'], ['rows', 'num'], ['data age', 'num']], rows, 'go')}
  ${more > 0 ? html`<p class="soft">and ${count(more)} more: find them by name above</p>` : ''}`;
  return page({ title: 'Data', root, at: 'data', main, isLive: false }, world);
}

interface Found {
  readonly target: EntityTarget;
  readonly record: ShownRecord;
}

/** Connectors whose name has the text, and, with the right to see values, records with it as their key or a word. */
export async function findPage(
  settings: LocalSettings,
  overviews: Overviews,
  text: string,
  records: RecordsWorld,
  world: PageWorld,
): Promise<string> {
  const names = [...settings.connectors.keys()].filter((name) => name.includes(text.toLowerCase()));
  const isShown = maySeeValues(world);
  const { found, looked, all } = isShown
    ? await findRecords(settings, overviews, text, records)
    : { found: [], looked: 0, all: 0 };
  const isNothing = names.length + found.length === 0;
  const soft = isShown
    ? `Looked in ${counted(looked, 'entity', 'entities')} of ${count(all)} with rows.`
    : '';
  const main = html`${head(html`${isNothing ? 'Nothing found for' : 'Found for'} “${printableWithin(text, 60)}”`, soft)}
  ${
    names.length === 0
      ? ''
      : html`<h2>Connectors</h2>
          <ul>
            ${names.slice(0, mostNames).map((name) => html`<li><a href="${root}connectors/${name}">${name}</a></li>`)}
          </ul>
          ${names.length > mostNames ? html`<p class="soft">and ${count(names.length - mostNames)} more</p>` : ''}`
  }
  ${
    found.length === 0
      ? ''
      : html`<h2>Records</h2>
          ${table('Records', ['record', 'of', ['values', 'cut']], found.map(foundRow), 'go')}`
  }
  ${isShown ? '' : noValues(world.visitor?.name ?? '')}`;
  return page({ title: 'Find', root, at: null, main, isLive: false }, world);
}

const mostNames = 20;
const charsOfValue = 60;

function foundRow({ target, record }: Found): readonly (SafeHtml | string)[] {
  const { connector, table: of } = target;
  const key = of.key.map((name) => [name, plainText(record.get(name)?.[0])] as const);
  const query = new URLSearchParams(key.map(([name, text]): [string, string] => [`key.${name}`, text]));
  const values = of.columns.flatMap(({ name }) => {
    const value = record.get(name)?.[0] ?? null;
    return of.key.includes(name) || value === null || typeof value === 'object' ? [] : [String(value)];
  });
  const address = `${root}data/${connector.name}/${of.entity}?${query.toString()}`;
  return [
    html`<a href="${address}">${printableWithin(key.map(([, one]) => one).join(' · '), charsOfValue)}</a>`,
    `${connector.name}/${of.entity}`,
    printable(values.slice(0, 5).join(', ')),
  ];
}

const withinMs = 5_000;
const mostByKey = 100;
const mostByWord = 16;
const mostOfEntity = 5;
const atOnce = 4;

/** First by key, which is quick; by words where no key is the text. */
async function findRecords(
  { connectors }: LocalSettings,
  overviews: Overviews,
  text: string,
  given: RecordsWorld,
) {
  const all = [...connectors.values()]
    .filter((connector) => (overviewOf(overviews, connector)?.rows ?? 0) > 0)
    .flatMap((connector) => targetsOf(connector).filter(({ entity }) => connector.entities.has(entity.name)));
  const late = AbortSignal.timeout(withinMs);
  const records = { ...given, signal: AbortSignal.any([given.signal, late]) };
  // The words get the rest of the time.
  const half = AbortSignal.timeout(withinMs / 2);
  const byKey = all.filter(({ table: { key } }) => key.length === 1).slice(0, mostByKey);
  const keys = await inTurns(byKey, half, async (target) => {
    const key = new Map([[target.table.key[0] ?? '', text]]);
    const { record } = await readRecord(records, target, key, charsOfValue);
    return record === null ? [] : [{ target, record }];
  });
  if (keys.found.length > 0) return { ...keys, all: all.length };
  const byWord = all.slice(0, mostByWord);
  const words = await inTurns(byWord, late, async (target) => {
    const filter = readTypedFilter(target, asWords(text));
    const asked = {
      which: 'stored',
      since: '',
      mostChars: charsOfValue,
      filter,
      limit: mostOfEntity,
    } as const;
    return (await readRows(records, target, asked)).rows.map((record) => ({ target, record }));
  });
  return { found: words.found, looked: Math.max(keys.looked, words.looked), all: all.length };
}

/** As words alone: neither JSON nor a comparison. */
function asWords(text: string): string {
  return text.replace(/[{}=<>!]/g, ' ');
}

/** A few at once, until the time is up; those that cannot be searched are passed over. */
async function inTurns(
  targets: readonly EntityTarget[],
  until: AbortSignal,
  find: (target: EntityTarget) => Promise<readonly Found[]>,
) {
  const found: Found[] = [];
  let looked = 0;
  const waiting = [...targets];
  const take = async (): Promise<void> => {
    for (let next = waiting.shift(); next !== undefined && !until.aborted; next = waiting.shift()) {
      try {
        found.push(...(await find(next)));
        looked += 1;
      } catch (error) {
        if (!(error instanceof SyncError) && !until.aborted) throw error;
      }
    }
  };
  await Promise.all(Array.from({ length: atOnce }, take));
  return { found, looked };
}
