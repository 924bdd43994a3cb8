import { isJsonObject, type JsonObject } from '../../../src/core/json.ts';
import type { Params } from '../../../src/core/records.ts';
import type { Entity } from '../../../src/definitions/definition.ts';
import { styleOf } from '../../../src/pagination/pagination-of.ts';
import type { UpstreamAccount } from '../../../src/upstream/open-upstream.ts';
import type { TruthRecord } from '../sample-truth.ts';

export const never = new AbortController().signal;

/** Every record of the listings that the truth knows, in pages of seven as the definition's pagination says. */
export async function walkAccount(
  account: Pick<UpstreamAccount, 'list'>,
  entity: Entity,
  truth: Iterable<TruthRecord>,
): Promise<readonly TruthRecord[]> {
  const found: TruthRecord[] = [];
  for (const params of listingsOf(entity, truth)) {
    for (const record of await walkListing(account, entity, params)) found.push({ record, params });
  }
  return found;
}

/** The parameters of each listing, once. */
function listingsOf(entity: Entity, truth: Iterable<TruthRecord>): readonly Params[] {
  const declared = entity.actions.get('list')?.params ?? new Map<string, unknown>();
  const listings = new Map<string, Params>();
  for (const { params } of truth) {
    const own = Object.fromEntries(Object.entries(params).filter(([name]) => declared.has(name)));
    listings.set(JSON.stringify(own), own);
  }
  return [...listings.values()];
}

async function walkListing(
  account: Pick<UpstreamAccount, 'list'>,
  entity: Entity,
  params: Params,
): Promise<readonly JsonObject[]> {
  const { pagination } = entity;
  const style = styleOf(pagination.kind === 'single' ? pagination : { ...pagination, maxSize: 7 });
  const pages = style.walk({
    isOrdered: true,
    growsOnly: false,
    pageLengths: new Map(),
    storedRows: 0,
    trustsTotal: true,
  });
  const records: JsonObject[] = [];
  let position = pages.begin();
  for (let calls = 0; calls < 200; calls += 1) {
    const asked = { ...entity.fixedParams, ...params, ...pages.request(position) };
    const page = await account.list({ entity: entity.name, params: asked }, never);
    records.push(...page.records.filter((record) => isJsonObject(record)));
    const last = page.records.at(-1);
    const next = style.readNext({ result: [], metadata: page.metadata }, () =>
      isJsonObject(last) ? last : undefined,
    );
    if (next !== null && 'fault' in next) throw new Error(next.fault);
    const marks = page.records.map((record) => JSON.stringify(record));
    const seen = { marks, changes: [], capMs: 0, bytes: page.bytes, next, nowMs: calls };
    const step = pages.advance(position, seen);
    if (step.kind === 'end') return records;
    if (step.kind !== 'continue') throw new Error(step.why);
    position = step.position;
  }
  throw new Error('the walk has no end');
}
