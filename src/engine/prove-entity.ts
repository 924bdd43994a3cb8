import { wholeJson } from '../core/canonical-json.ts';
import { hasCode, SyncError } from '../core/errors.ts';
import { memberOf } from '../core/json.ts';
import type { Params } from '../core/records.ts';
import type { Entity } from '../definitions/definition.ts';
import { hidingParams, type Guess } from '../definitions/guesses.ts';
import { dividedListings } from './chosen-entities.ts';
import { tryListing, type TriedCall, type TryOptions } from './try-listing.ts';
import { windowParams } from './windows.ts';

/** Result of testing a guess. `open`: the calls showed neither that it is right nor that it is wrong. */
export interface Finding {
  readonly guess: Guess;
  readonly verdict: 'proven' | 'wrong' | 'open';
  readonly why: string;
  readonly rows: number;
  readonly parents: number;
}

type Verdict = Pick<Finding, 'verdict' | 'why'>;
export type ProveOptions = Omit<TryOptions, 'params' | 'expectsTotal' | 'onCall'>;

/** Calls for the first listing, for each other one, and for the first one in smaller pages. */
const calls = { first: 4, other: 1, sized: 7 };
/** Listings of different parents that are read, and values of optional parameters that are tried. */
const mostListings = 3;
const mostValues = 6;
/** Fewer rows say too little of a key. */
const fewestRows = 10;

/** Tests the open guesses of an entity against the service, with about twelve calls. Rejects as `tryListing` does. */
export async function proveEntity(options: ProveOptions): Promise<readonly Finding[]> {
  const { entity } = options;
  const readings: Reading[] = [];
  for (const params of await listingsOf(options, entity, mostListings)) {
    readings.push(await read(options, entity, params, readings.length === 0 ? calls.first : calls.other));
  }
  const trial: Trial = { options, readings, paged: await pagedReading(options, readings[0]) };
  const findings: Finding[] = [];
  for (const { guess } of entity.draft?.open ?? []) {
    findings.push({
      guess,
      ...(await judges[guess](trial)),
      rows: new Set(readings.flatMap(({ rows }) => rows.map(({ key }) => key))).size,
      parents: entity.parents.length === 0 ? 0 : readings.filter(({ failure }) => failure === null).length,
    });
  }
  return findings;
}

interface Trial {
  readonly options: ProveOptions;
  readonly readings: readonly Reading[];
  /** The first listing, in several pages where its size allows that. */
  readonly paged: Reading | undefined;
}

/** A listing, as far as the calls reached. */
type Reading = Awaited<ReturnType<typeof read>>;

/** Reads a listing with at most so many calls. Throws errors that would end a run. */
async function read(options: ProveOptions, entity: Entity, params: Params, most: number) {
  const made: TriedCall[] = [];
  const { source } = options;
  let left = most;
  const limited: typeof source = {
    ...source,
    list: async (request, signal) => {
      if (left === 0) throw new SyncError('enough', { code: 'BUDGET_SPENT', recovery: 'stop' });
      left -= 1;
      return await source.list(request, signal);
    },
  };
  const onCall = (call: TriedCall): void => void made.push(call);
  await tryListing({ ...options, entity, params, source: limited, expectsTotal: false, onCall });
  const last = made.at(-1)?.next;
  if (last?.kind === 'stop' && !hasCode(last.error, 'BUDGET_SPENT')) throw last.error;
  return {
    params,
    calls: made,
    rows: made
      .flatMap(({ commit }) => commit?.rows[0]?.records ?? [])
      .map(({ keyText: key, values, extra }) => ({
        key,
        content: [...values, extra].map(String).join('\n'),
      })),
    /** Null: its end was not reached. */
    seal: last?.kind === 'end' ? last.seal : null,
    failure: last?.kind === 'set-aside' ? last.failure : null,
  };
}

/** The records of a page as they came. */
function recordsOf({ page }: Pick<TriedCall, 'page'>): readonly string[] {
  if (page === null) return [];
  return Array.from({ length: page.records.length }, (_, index) => wholeJson(page.records.value(index)));
}

/** Parameters of the first listings of an entity; below parents, of those that first pages lead to. */
async function listingsOf(options: ProveOptions, entity: Entity, most: number): Promise<readonly Params[]> {
  if (entity.parents.length === 0) {
    return dividedListings(entity, [windowParams(entity, options.clock.now())]).slice(0, most);
  }
  const found = new Map<string, Params>();
  for (const parent of entity.parents.filter(({ byDefault }) => byDefault)) {
    const above = options.definition.entities.get(parent.entity);
    if (above === undefined) continue;
    for (const params of await listingsOf(options, above, most)) {
      if (found.size >= most) break;
      const { calls: made } = await read(options, above, params, 1);
      for (const child of made.flatMap(({ commit }) => commit?.children ?? [])) {
        if (child.entity === entity.name) found.set(wholeJson(child.params), child.params);
      }
    }
  }
  return [...found.values()].slice(0, most);
}

/** Reads a listing of one page again with smaller pages, where its size can be chosen. */
async function pagedReading(options: ProveOptions, first: Reading | undefined) {
  const { entity } = options;
  const { pagination } = entity;
  if (first === undefined || first.seal === null || pagination.kind === 'single') return first;
  const pages = first.calls.filter((call) => recordsOf(call).length > 0).length;
  const isAsked = entity.draft?.open.some(({ guess }) => guess === 'paging') === true;
  if (!isAsked || pages !== 1 || first.rows.length < 2 || pagination.sizeParam === null) return first;
  const smaller = { ...pagination, maxSize: Math.ceil(first.rows.length / 2) } as Entity['pagination'];
  return await read(options, { ...entity, pagination: smaller }, first.params, calls.sized);
}

const judges: Readonly<Record<Guess, (trial: Trial) => Verdict | Promise<Verdict>>> = {
  key: judgeKey,
  paging: judgePaging,
  hidden: judgeHidden,
  parent: judgeParent,
};

const proven = (why: string): Verdict => ({ verdict: 'proven', why });
const wrong = (why: string): Verdict => ({ verdict: 'wrong', why });
const open = (why: string): Verdict => ({ verdict: 'open', why });

function judgeKey({ options: { entity }, readings }: Trial): Verdict {
  const all = readings.flatMap((reading) => reading.calls);
  const refused = all.flatMap(({ commit }) => commit?.refused ?? []);
  if (refused.length > 0) {
    return wrong(`${refused.length} records cannot be stored: ${refused[0]?.reason}, ${refused[0]?.detail}`);
  }
  for (const { rows } of readings) {
    const contentOf = new Map<string, string>();
    const twice = rows.find(({ key, content }) => {
      const other = contentOf.get(key) ?? content;
      contentOf.set(key, content);
      return other !== content;
    });
    if (twice !== undefined) return wrong(`${twice.key} came twice in one listing, with different content`);
  }
  const { key, parents } = entity;
  const isKeyed = parents.every(({ inject }) => key.some((name) => inject.has(name)));
  const withRows = readings.filter(({ rows }) => rows.length > 0);
  const listed = withRows.map(({ rows }) => new Set(rows.map((row) => row.key)));
  const [first, ...others] = listed;
  const shared = isKeyed
    ? undefined
    : others.flatMap((keys) => [...keys].filter((one) => first?.has(one)))[0];
  if (shared !== undefined) {
    const named = [...new Set(parents.flatMap(({ inject, params }) => [...inject.keys(), ...params.keys()]))];
    return wrong(
      `${shared} came below two parents: add what names the parent (${named.join(', ')}) to the key`,
    );
  }
  const count = listed.reduce((sum, { size }) => sum + size, 0);
  if (count < fewestRows) return open(`too few rows came (${count} of at least ${fewestRows})`);
  if (!isKeyed && withRows.length < 2) return open('rows came below one parent only');
  return proven(`${count} rows, no key twice`);
}

async function judgePaging({ options, readings, paged }: Trial): Promise<Verdict> {
  const { pagination } = options.entity;
  if (paged === undefined) return open('there is no listing to read');
  const problem = [...readings, paged].flatMap((one) => one.calls.flatMap(({ problems }) => problems))[0];
  if (problem !== undefined) return wrong(problem);
  if (paged.failure?.code === 'PAGING_BROKEN') return wrong(paged.failure.message);
  if (paged.failure !== null) return open(paged.failure.message);
  if (pagination.kind === 'single') return proven('one page');
  const pages = paged.calls.map(recordsOf);
  const [first = [], second = []] = pages;
  if (second.length === 0) return open('no second page came, even with small ones');
  if (second.every((record) => first.includes(record))) return wrong('the second page repeats the first');
  const found = shortPage(options, paged) ?? (await missedAtFront(options, paged));
  if (found !== null) return wrong(found);
  const { seal } = paged;
  if (seal === null) return open(`its end was not reached in ${paged.calls.length} calls`);
  const total = paged.calls[0]?.page?.total;
  const came = new Set(pages.flat()).size;
  if (total !== undefined && options.entity.trustsTotal && total !== came) {
    return wrong(`the service names a total of ${total}, and ${came} records came: leave out totalKeys`);
  }
  const { doubt } = seal;
  if (doubt !== undefined && doubt.kind !== 'unproven') return wrong(`its end is in doubt (${doubt.kind})`);
  return proven(`${pages.filter(({ length }) => length > 0).length} pages to the end`);
}

/** A page that is shorter than was asked for, although more follows. */
function shortPage({ entity: { pagination } }: ProveOptions, { calls: made }: Reading): string | null {
  const name = pagination.kind === 'single' ? null : pagination.sizeParam;
  if (name === null) return null;
  const [call, next] = made;
  const asked = call === undefined ? undefined : memberOf(call.request.params, name);
  const came = call?.page?.records.length ?? 0;
  const isCut = typeof asked === 'number' && came < asked && (next?.page?.records.length ?? 0) > 0;
  return isCut
    ? `${asked} records were asked for, ${came} came, and more follow: write maxSize: ${came}`
    : null;
}

/** Requests the page before the first one. Returns a message if that page has records that no other page has. */
async function missedAtFront({ source, entity, signal }: ProveOptions, { calls: made }: Reading) {
  const { pagination } = entity;
  const [call] = made;
  if (call === undefined || pagination.kind !== 'page' || pagination.first === 0) return null;
  const { pageParam, first } = pagination;
  const params = { ...call.request.params, [pageParam]: first - 1 };
  const before = await source.list({ ...call.request, params }, signal).catch((error: unknown) => {
    // Most services refuse it.
    if (!(error instanceof SyncError) || error.recovery === 'stop') throw error;
    return null;
  });
  const known = new Set(made.flatMap(recordsOf));
  const isMissed = recordsOf({ page: before }).some((record) => !known.has(record));
  return isMissed
    ? `page ${first - 1} has records that the other pages lack: write first: ${first - 1}`
    : null;
}

async function judgeHidden({ options, readings, paged }: Trial): Promise<Verdict> {
  const { entity } = options;
  const [base] = readings;
  if (base === undefined || base.failure !== null) return open('the listing could not be read');
  const { pagination, parents, order, each, incremental } = entity;
  const taken = [pagination, order?.params, incremental, ...parents.map(({ params }) => params)];
  const names = taken.flatMap((one) =>
    one instanceof Map ? [...one.keys()] : [...Object.keys(one ?? {}), ...Object.values(one ?? {})],
  );
  const params = entity.actions.get('list')?.params ?? new Map();
  const hiding = hidingParams(params, entity.fixedParams, [...names, ...each.keys()]);
  if (hiding.size === 0) return open('no optional parameter is declared that could show more');
  const whole = [base, ...(paged === undefined ? [] : [paged])];
  const seen = new Set(whole.flatMap(({ rows }) => rows.map(({ key }) => key)));
  const isWhole = whole.some(({ seal }) => seal !== null);
  const total = base.calls[0]?.page?.total;
  const untold = new Set<string>();
  let left = mostValues;
  for (const [name, values] of hiding) {
    const isBound = params.get(name)?.type === 'string' && params.get(name)?.enum === null;
    for (const value of values) {
      if (left === 0) return open(`more than ${mostValues} values of optional parameters are to be tried`);
      left -= 1;
      const tried = await read(options, entity, { ...base.params, [name]: value }, 1);
      const page = tried.calls[0]?.page ?? null;
      const more = tried.rows.filter(({ key }) => !seen.has(key)).length;
      const hasMore = total !== undefined && (page?.total ?? 0) > total;
      if (hasMore || (isWhole && more > 0)) {
        return wrong(`${name}: ${JSON.stringify(value)} shows records that the listing does not show`);
      }
      const isTold = page !== null && (isWhole || total !== undefined || more === 0);
      if (!isTold) untold.add(name);
      else if (isBound) {
        untold.delete(name);
        break;
      }
    }
  }
  if (untold.size > 0) return open(`calls with ${[...untold].join(', ')} do not tell`);
  return proven(`${[...hiding.keys()].join(', ')}: no value shows more`);
}

function judgeParent({ readings }: Trial): Verdict {
  const failed = readings.find(({ failure }) => failure !== null);
  if (failed !== undefined) {
    return wrong(`the listing of ${wholeJson(failed.params)} cannot be read: ${failed.failure?.message}`);
  }
  if (readings.length < 2) return open(`found too few parents (${readings.length} of at least 2)`);
  const shown = readings.flatMap(({ calls: made }) => {
    const records = made.flatMap(recordsOf);
    return records.length === 0 ? [] : [records.toSorted().join('\n')];
  });
  if (shown.length === 0) return open('no record came below any parent');
  if (shown.length > 1 && new Set(shown).size === 1) return wrong('all parents show the same records');
  return proven(`${readings.length} parents answer`);
}
