import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import type { Pagination as PaginationRules } from '../../../src/definitions/definition.ts';
import type { Paging } from '../../../src/definitions/upstream/upstream.ts';
import { styleOf } from '../../../src/pagination/pagination-of.ts';
import type { PageLengths } from '../../../src/pagination/page-lengths.ts';
import type { Doubt, Proof } from '../../../src/sinks/partition.ts';
import { textOf } from '../../../src/sample/writing.ts';
import { translatePaging } from '../../../src/upstream/translate-paging.ts';

/** A service that pages in its own way, whatever its definition says. */
export interface MadeUpPaging {
  readonly kind: 'page' | 'offset' | 'cursor';
  /** Records of a page at most. */
  readonly cap: number;
  /** What it does with the size that is asked for; `renamed`: it hears another name, and gives what it gives without one. */
  readonly size: 'heard' | 'ignored' | 'renamed';
  readonly after: 'empty' | 'refused' | 'wrap' | 'repeat';
  /** What it says of the number of records; null: nothing. */
  readonly totalOf: (rows: number) => number | null;
}

/** What the definition says of it. */
export interface Declared {
  readonly maxSize: number;
  readonly isFixed: boolean;
  readonly end: 'repeats' | 'refused' | null;
  readonly isOrdered: boolean;
  readonly growsOnly: boolean;
}

export interface MadeUpWalk {
  readonly seen: ReadonlySet<string>;
  readonly calls: number;
  /** How the walk ended: with a proof, or why not. */
  readonly proof: Proof | null;
  readonly doubt: Doubt | null;
  readonly why: string | null;
}

/** The run's report would call the listing complete. */
export function saysComplete({ proof, doubt }: MadeUpWalk): boolean {
  return proof !== null && doubt === null && (proof.isOrdered || proof.isCounted === true);
}

/** Walks as the engine does; `between` runs before each call. Records are marked by themselves: what changes its place changes its mark. */
export function walkMadeUp(
  rows: string[],
  service: MadeUpPaging,
  declared: Declared,
  between: (call: number) => void = () => undefined,
  pageLengths: PageLengths = new Map(),
): MadeUpWalk {
  const { rules, paging } = describe(service, declared);
  const style = styleOf(rules);
  const { isOrdered, growsOnly } = declared;
  const pages = style.walk({ isOrdered, growsOnly, pageLengths, storedRows: 0, trustsTotal: true });
  const seen = new Set<string>();
  let position = pages.begin();
  let restarts = 0;
  for (let calls = 1; calls < 6000; calls += 1) {
    between(calls);
    const failed = (why: string): MadeUpWalk => ({ seen, calls, proof: null, doubt: null, why });
    const call = translatePaging({ pagination: rules }, { paging }, pages.request(position));
    const answer = answerOf(rows, service, call.call);
    const isRefused = answer === null;
    if (isRefused && call.endStatus !== 404 && pages.refused?.(position) !== 'empty') {
      return failed('refused');
    }
    const found = answer?.records ?? [];
    const value: JsonValue = { total: answer?.total ?? null, next: answer?.next ?? null };
    const read = {
      value,
      status: 200,
      header: () => null,
      url: new URL('https://made-up.example/'),
    };
    const metadata: JsonObject = isRefused ? {} : call.readMetadata(read, found);
    const marks = found.slice(call.from, call.to).map(({ id }) => textOf(id ?? null));
    for (const mark of marks) seen.add(mark.replaceAll("'", ''));
    const next = style.readNext({ result: [], metadata, link: null });
    if (next !== null && 'fault' in next) return failed(next.fault);
    const total = style.readTotal({ metadata });
    const step = pages.advance(position, {
      marks,
      changes: [],
      capMs: 0,
      bytes: 100 * marks.length,
      next,
      ...(total === null ? {} : { total }),
      nowMs: calls,
    });
    if (step.kind === 'end') {
      return { seen, calls, proof: step.proof, doubt: step.doubt ?? null, why: null };
    }
    if (step.kind === 'broken') return failed(step.why);
    restarts += step.kind === 'restart' ? 1 : 0;
    if (step.kind === 'restart' && restarts > 3) return failed(step.why);
    // What the ledger keeps is JSON: a walk must survive the way there and back.
    position =
      step.kind === 'restart'
        ? pages.begin()
        : (JSON.parse(JSON.stringify(step.position)) as typeof position);
  }
  return { seen, calls: 6000, proof: null, doubt: null, why: 'never ends' };
}

interface MadeUpAnswer {
  readonly records: readonly JsonObject[];
  readonly total: number | null;
  readonly next: string | null;
}

/** Null: there is no such page. */
function answerOf(
  rows: readonly string[],
  { kind, cap, size, after, totalOf }: MadeUpPaging,
  { params, query }: { params: JsonObject; query: readonly (readonly [string, string])[] },
): MadeUpAnswer | null {
  const asked = typeof params['limit'] === 'number' && size === 'heard' ? params['limit'] : cap;
  const length = size === 'ignored' ? cap : Math.min(cap, asked);
  const last = Math.max(0, Math.ceil(rows.length / length) - 1) * length;
  const numbers = { page: (Number(query[0]?.[1] ?? 1) - 1) * length, offset: Number(params['offset'] ?? 0) };
  let start = kind === 'cursor' ? Number(params['cursor'] ?? 0) : numbers[kind];
  if (kind !== 'cursor' && start > 0 && start >= rows.length) {
    if (after === 'refused') return null;
    if (after === 'wrap') start = 0;
    if (after === 'repeat') start = last;
  }
  const end = start + length;
  return {
    records: rows.slice(start, end).map((id) => ({ id })),
    total: totalOf(rows.length),
    next: end < rows.length ? String(end) : null,
  };
}

function describe(
  { kind, after, totalOf }: MadeUpPaging,
  { maxSize, isFixed, end }: Declared,
): { rules: PaginationRules; paging: Paging } {
  const body = (name: string): { kind: 'body'; path: string[] } => ({ kind: 'body', path: [name] });
  if (kind === 'cursor') {
    const rules: PaginationRules = {
      kind: 'pageToken',
      tokenParam: 'cursor',
      sizeParam: 'limit',
      maxSize,
      flagKeys: ['more'],
      tokenKeys: ['next'],
      lifetimeMs: 1e9,
      totalKeys: [],
    };
    return { rules, paging: { kind, token: body('next'), more: null } };
  }
  const total = totalOf(1) === null ? null : body('total');
  const byOffset = { kind: 'offset', offsetParam: 'offset', sizeParam: 'limit', maxSize } as const;
  const rules: PaginationRules = { ...byOffset, totalKeys: ['total'] };
  if (kind === 'offset') return { rules, paging: { kind, total } };
  return {
    rules: { ...rules, numbered: { isFixed, endsByRepeat: end === 'repeats' } },
    paging: {
      kind,
      param: 'page',
      first: 1,
      total,
      isFixed,
      endStatus: end === 'refused' && after === 'refused' ? 404 : null,
    },
  };
}
