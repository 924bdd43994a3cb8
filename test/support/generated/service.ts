import type { JsonObject, JsonValue } from '../../../src/core/json.ts';
import { seededRandom } from '../seeded-random.ts';

/** How a listing is cut into pages, and how its definition says so. */
export type Style = 'page' | 'fixedPage' | 'offset' | 'token' | 'lastRecord';

/** Each as often as it is chosen. The places stay: by them the seeds that were hard once make the same service. */
const styles: readonly Style[] = [
  'page',
  'fixedPage',
  'page',
  'offset',
  'token',
  'lastRecord',
  'page',
  'offset',
  'page',
];

/** What a service is like. All of it follows from the seed. */
export interface ServiceKind {
  readonly seed: number;
  readonly style: Style;
  /** Records of a page that may be asked for at most, and that the service gives at most. */
  readonly size: number;
  readonly cap: number;
  readonly rows: number;
  /** `declared`: by a field, ascending. `kept`: the same, and not declared. `none`: a new one each time. */
  readonly order: 'declared' | 'kept' | 'none';
  /**
   * What its answers count. `right`: the records that it shows. `all`: hidden ones too. `page`: those of the page.
   * `low`, `high`: a few too little or too much. `capped`: up to a number.
   */
  readonly total: 'absent' | 'right' | 'all' | 'page' | 'low' | 'high' | 'capped';
  /** What comes behind the last page. */
  readonly behind: 'empty' | 'repeat' | 400 | 404 | 416 | 500;
  readonly hides: 'nothing' | 'rows' | 'page' | 'twoPages' | 'manyPages' | 'share' | 'head' | 'tail';
  /** Answers say, rightly, whether more pages follow. */
  readonly isFlagged: boolean;
  readonly saysSize: boolean;
  readonly saysEnd: boolean;
  /** The definition says that no page comes empty or short in the middle, which need not be true. */
  readonly saysGaps: boolean;
  readonly hasGet: boolean;
  /** Changes before each call: a share of them. */
  readonly unrest: number;
  /** `isFull`: everything is asked for in full; `isQuiet`: nothing has changed since the run before. */
  readonly runs: readonly { readonly isFull: boolean; readonly isQuiet: boolean }[];
}

export function serviceKind(seed: number): ServiceKind {
  const random = seededRandom(seed * 7919);
  const pick = <Value>(values: readonly Value[]): Value => {
    const value = values[Math.floor(random() * values.length)];
    if (value === undefined) throw new Error('nothing to pick from');
    return value;
  };
  const int = (from: number, below: number): number => from + Math.floor(random() * (below - from));
  const style = pick(styles);
  const size = random() < 0.2 ? int(2, 5) : random() < 0.8 ? int(5, 16) : int(16, 41);
  const isCapped = style !== 'fixedPage' && random() < 0.2;
  const cap = isCapped ? int(2, size + 1) : size;
  const isNumbered = style !== 'token' && style !== 'lastRecord';
  const order = isNumbered ? pick(orders) : 'declared';
  const kind = {
    seed,
    style,
    size,
    cap,
    rows: random() < 0.1 ? int(0, cap + 1) : int(cap, 13 * cap),
    order,
    total: pick(totals),
    behind: isNumbered ? pick(ends) : ('empty' as const),
    hides: order === 'none' ? pick(['nothing', 'rows'] as const) : pick(hidden),
    isFlagged: (style === 'page' || style === 'lastRecord') && random() < 0.2,
    saysSize: cap === size && style !== 'token' && random() < 0.25,
    saysEnd: random() < 0.5,
    hasGet: random() < 0.3,
    unrest: random() < 0.5 ? 0 : pick([0.05, 0.2, 0.6]),
    runs: Array.from({ length: int(2, 5) }, (_, index) => ({
      isFull: index > 0 && random() < 0.6,
      isQuiet: index === 0 || random() < 0.3,
    })),
  };
  const share = kind.hides === 'nothing' ? 0.3 : 0.05;
  return { ...kind, saysGaps: isNumbered && seededRandom(seed * 31)() < share };
}

const totals = [
  ...(['absent', 'absent', 'absent', 'right', 'right', 'all', 'page', 'low', 'high', 'capped'] as const),
];
const ends = ['empty', 'empty', 'empty', 'repeat', 400, 404, 416, 500] as const;
const orders = ['declared', 'declared', 'declared', 'declared', 'kept', 'kept', 'none'] as const;
const hidden = [
  ...(['nothing', 'nothing', 'rows', 'rows', 'page', 'page', 'twoPages', 'twoPages'] as const),
  ...(['manyPages', 'share', 'head', 'tail'] as const),
];

interface Row {
  readonly id: number;
  rank: number;
  isHidden: boolean;
  /** It has been moved to the end. */
  readonly isMoved?: true;
}

const noRiddles = { isShortFirst: false, isLongGap: false, isMovedBehind: false, isWrongTotal: false };

/** Ways of hiding records from which no walk can tell that more follows. */
export interface Riddles {
  /**
   * The first page has fewer records than fit on it, or than are asked for and with nothing right behind it, and there
   * are more.
   */
  isShortFirst: boolean;
  /** Three or more pages in a row show nothing new, and there are records behind them; by its last record, one page. */
  isLongGap: boolean;
  /** A record has moved behind them. */
  isMovedBehind: boolean;
  /** A wrong total agrees with the records that came before the rest. */
  isWrongTotal: boolean;
}

export interface Answer {
  readonly status: number;
  readonly body: JsonValue;
}

/** A service whose records come, go and move. It cuts its pages before it leaves out what the caller may not see. */
export function openGenerated(kind: ServiceKind) {
  const random = seededRandom(kind.seed);
  const int = (below: number): number => Math.floor(random() * below);
  const rows: Row[] = Array.from({ length: kind.rows }, (_, index) => ({
    id: index + 1,
    rank: (index + 1) * 1000,
    isHidden: false,
  }));
  const { cap, style, order } = kind;
  const longGap = cap * (style === 'lastRecord' ? 1 : 3);
  let nextId = kind.rows + 1;
  let calls = 0;
  /** Of each run: what was shown from its start on, and its riddles. */
  const throughout: Set<number>[] = [];
  const riddlesOfRuns: Riddles[] = [];
  let riddles: Riddles = { ...noRiddles };
  /** Records of this run so far. */
  let came = new Set<number>();
  const d = 1 + int(Math.max(1, cap * 2));
  const most = 1 + int(Math.max(1, kind.rows));

  function hide(how: ServiceKind['hides']): void {
    const pages = Math.ceil(rows.length / cap);
    const page = 1 + int(Math.max(1, pages - 1));
    const shift = random() < 0.7 ? 0 : int(cap);
    const blocks = { page: 1, twoPages: 2, manyPages: 3 + int(3) };
    const share = 0.05 + random() * 0.6;
    const chosen = new Set(Array.from({ length: 1 + int(3) }, () => int(Math.max(1, rows.length))));
    const isHidden = (index: number): boolean => {
      switch (how) {
        case 'nothing':
          return false;
        case 'rows':
          return chosen.has(index);
        case 'page':
        case 'twoPages':
        case 'manyPages':
          return index >= page * cap + shift && index < (page + blocks[how]) * cap + shift;
        case 'share':
          return index >= cap && random() < share;
        case 'head':
          return index < 1 + (page * cap) / 2;
        case 'tail':
          return index >= rows.length - page;
      }
    };
    for (const [index, row] of rows.entries()) row.isHidden = isHidden(index);
  }

  function note(): void {
    const shown = new Set(rows.filter((row) => !row.isHidden).map(({ id }) => id));
    for (const set of throughout) {
      for (const id of set) if (!shown.has(id)) set.delete(id);
    }
    if (style === 'token' || kind.isFlagged || order === 'none') return;
    const last = rows.findLastIndex((row) => !row.isHidden);
    const first = rows.slice(0, cap).filter((row) => !row.isHidden).length;
    // The call that shows that a short first page is all reaches half a page behind it.
    const isCut = cap < kind.size && rows.slice(cap, 1.5 * cap).every((row) => row.isHidden);
    if ((first < cap || isCut) && last >= cap) riddles.isShortFirst = true;
    let gap = 0;
    let isBehind = false;
    for (const row of rows.slice(0, last + 1)) {
      gap = row.isHidden ? gap + 1 : 0;
      isBehind ||= gap >= longGap;
      if (isBehind && row.isMoved === true && !row.isHidden) riddles.isMovedBehind = true;
    }
    riddles.isLongGap ||= isBehind;
  }

  /** One record comes, goes, or moves to the end. In a declared order new ones come last. */
  function change(): void {
    const what = random();
    const at = int(rows.length);
    if (what < 0.5) {
      rows.splice(at, 1);
    } else if (style === 'lastRecord' || (what < 0.75 && order === 'declared')) {
      insert(rows.length);
    } else if (what < 0.75) {
      insert(int(rows.length + 1));
    } else {
      for (const row of rows.splice(at, 1)) {
        rows.push({ ...row, rank: (rows.at(-1)?.rank ?? 0) + 1000, isMoved: true });
      }
    }
    note();
  }

  function insert(at: number): void {
    const before = rows[at - 1]?.rank ?? 0;
    const rank = (before + (rows[at]?.rank ?? before + 2000)) / 2;
    rows.splice(at, 0, { id: nextId, rank, isHidden: false });
    nextId += 1;
  }

  function begin(): void {
    throughout.push(new Set(rows.filter((row) => !row.isHidden).map(({ id }) => id)));
    riddles = { ...noRiddles };
    riddlesOfRuns.push(riddles);
    came = new Set();
    note();
  }

  function total(shownOnPage: number): number | null {
    const shown = rows.filter((row) => !row.isHidden).length;
    const numbers = {
      absent: null,
      right: shown,
      all: rows.length,
      page: shownOnPage,
      low: Math.max(0, shown - d),
      high: shown + d,
      capped: Math.min(shown, most),
    };
    return numbers[kind.total];
  }

  function list(query: URLSearchParams): Answer {
    calls += 1;
    if (random() < kind.unrest) change();
    const asked = Number(query.get('limit') ?? kind.size);
    const length = Math.min(asked, cap);
    const listed =
      order === 'none' ? rows.toSorted((one, other) => mixed(one.id, calls) - mixed(other.id, calls)) : rows;
    const start = startOf(query, length);
    if (start > 0 && start >= rows.length && kind.behind !== 'empty') {
      if (kind.behind === 'repeat') return page(Math.max(0, (Math.ceil(rows.length / length) - 1) * length));
      return { status: kind.behind, body: { message: 'there is no such page' } };
    }
    return page(start);

    function page(from: number): Answer {
      const cut = listed.slice(from, from + length);
      const shown = cut.filter((row) => !row.isHidden);
      const isMore = from + length < rows.length;
      const named = total(shown.length);
      for (const { id } of shown) came.add(id);
      // The total of a page alone is a form of its own, which shows itself.
      const isRight = kind.total === 'page' || named === rows.filter((row) => !row.isHidden).length;
      if (named === came.size && !isRight) riddles.isWrongTotal = true;
      if (order === 'none' && from === 0 && shown.length < length && isMore) riddles.isShortFirst = true;
      return {
        status: 200,
        body: {
          items: shown.map(recordOf),
          total: named,
          ...(kind.isFlagged ? { more: isMore } : {}),
          next: isMore ? `t${cut.at(-1)?.rank ?? 0}` : null,
        },
      };
    }
  }

  function startOf(query: URLSearchParams, length: number): number {
    switch (style) {
      case 'page':
      case 'fixedPage':
        return (Number(query.get('page') ?? 1) - 1) * length;
      case 'offset':
        return Number(query.get('offset') ?? 0);
      case 'token': {
        const token = query.get('cursor');
        return token === null ? 0 : firstWith(({ rank }) => rank > Number(token.slice(1)));
      }
      case 'lastRecord':
        return firstWith(({ id }) => id > Number(query.get('after') ?? 0));
    }
  }

  function firstWith(isBehind: (row: Row) => boolean): number {
    const found = rows.findIndex(isBehind);
    return found === -1 ? rows.length : found;
  }

  hide(kind.hides);
  return {
    kind,
    begin,
    /** Between two runs. */
    pass(): void {
      const changes = random() < 0.4 ? 0 : int(1 + Math.ceil(rows.length / 8));
      for (let count = 0; count < changes; count += 1) change();
      if (random() < 0.2) rows.splice(Math.max(0, rows.length - int(cap * 2)));
      if (kind.hides !== 'nothing' && random() < 0.5) hide(random() < 0.3 ? 'nothing' : kind.hides);
      note();
    },
    answer(path: string, query: URLSearchParams): Answer {
      if (path === '/items') return list(query);
      const row = rows.find(({ id }) => path === `/items/${id}`);
      return row === undefined || row.isHidden
        ? { status: 404, body: { message: 'there is no such item' } }
        : { status: 200, body: recordOf(row) };
    },
    /** Records that were shown from the start of a chain of so many runs to its end. */
    throughout: (chain: number): ReadonlySet<number> => throughout.at(-chain) ?? new Set(),
    riddles: (chain: number): Riddles => {
      const ofChain = riddlesOfRuns.slice(-chain);
      return {
        isShortFirst: ofChain.some(({ isShortFirst }) => isShortFirst),
        isLongGap: ofChain.some(({ isLongGap }) => isLongGap),
        isMovedBehind: ofChain.some(({ isMovedBehind }) => isMovedBehind),
        isWrongTotal: ofChain.some(({ isWrongTotal }) => isWrongTotal),
      };
    },
    shown: (): ReadonlySet<number> => new Set(rows.filter((row) => !row.isHidden).map(({ id }) => id)),
    calls: () => calls,
    /** Calls of a reader who knows the page size and stops at the first page that could be the last. */
    bareCalls: () =>
      style === 'token' ? Math.max(1, Math.ceil(rows.length / cap)) : Math.floor(rows.length / cap) + 1,
  };
}

export type GeneratedService = ReturnType<typeof openGenerated>;

function recordOf({ id, rank }: Row): JsonObject {
  return { id, rank, name: `item ${id}` };
}

function mixed(id: number, call: number): number {
  return Math.imul(id * 2_654_435_761 + call * 40_503, 0x45d9f3b) >>> 0;
}

/** The definition of the service, at an address. */
export function definitionOf(kind: ServiceKind, baseUrl: string): JsonObject {
  const { style, size, total, behind, saysSize, saysEnd, isFlagged, hasGet } = kind;
  const limit = { type: 'integer', min: 1, max: size };
  const sized = { sizeParam: 'limit', maxSize: size };
  const counts = total === 'absent' ? {} : { totalKeys: ['total'] };
  const honours = saysSize ? { honoursSize: true } : {};
  const flags = isFlagged ? { flagKeys: ['more'] } : {};
  const gaps = kind.saysGaps ? { gaps: 'never' } : {};
  const end =
    !saysEnd || behind === 'empty' ? {} : { end: behind === 'repeat' ? 'repeats' : { status: behind } };
  const byPage = { kind: 'page', pageParam: 'page', first: 1, ...counts, ...gaps, ...end };
  const byOffset = { kind: 'offset', offsetParam: 'offset', ...sized, ...counts, ...honours };
  const forms: Record<Style, { readonly params: JsonObject; readonly pagination: JsonObject }> = {
    page: { params: { page: 'integer', limit }, pagination: { ...byPage, ...sized, ...honours, ...flags } },
    fixedPage: { params: { page: 'integer' }, pagination: { ...byPage, maxSize: size } },
    offset: { params: { offset: 'integer', limit }, pagination: { ...byOffset, ...gaps, ...end } },
    token: {
      params: { cursor: 'string', limit },
      pagination: { kind: 'pageToken', tokenParam: 'cursor', ...sized, tokenKeys: ['next'], ...counts },
    },
    lastRecord: {
      params: { after: 'integer', limit },
      pagination: {
        kind: 'lastRecord',
        tokenParam: 'after',
        field: 'id',
        ...sized,
        ...counts,
        ...honours,
        ...flags,
      },
    },
  };
  const { params, pagination } = forms[style];
  const isSorted = kind.order === 'declared' && style !== 'token' && style !== 'lastRecord';
  // Every other service is sorted so by default.
  const isAsked = isSorted && kind.seed % 2 === 0;
  const order = { field: 'rank', ...(isAsked ? { params: { sort: 'rank' } } : {}) };
  const metadata = {
    ...(total === 'absent' ? {} : { total: 'total' }),
    ...(style === 'token' ? { next: 'next' } : {}),
    ...(isFlagged ? { more: 'more' } : {}),
  };
  const get = { params: { item_id: { type: 'string', required: true } }, key: { item_id: 'id' } };
  return {
    name: 'generated',
    title: 'A generated service',
    id: '0b7f6f0e-54f5-4a5e-9a55-3f5a6f2f7c11',
    rateLimit: { requestsPerSecond: 1000, concurrency: 4 },
    credentials: [{ title: 'API token', fields: { token: {} } }],
    entities: {
      items: {
        fields: { id: 'integer', rank: 'number', name: 'string' },
        key: ['id'],
        actions: {
          list: { params: isAsked ? { ...params, sort: 'string' } : params },
          ...(hasGet ? { get } : {}),
        },
        pagination,
        ...(isSorted ? { order } : {}),
      },
    },
    upstream: {
      baseUrl,
      auth: { 'API token': { kind: 'bearer', token: { field: 'token' } } },
      check: { path: '/me', identity: 'id' },
      message: ['message'],
      limits: { concurrency: 4, requestsPerSecond: 1000, timeoutMs: 30_000, maxBodyBytes: 33_554_432 },
      entities: {
        items: {
          list: {
            path: '/items',
            records: 'items',
            ...(Object.keys(metadata).length === 0 ? {} : { metadata }),
          },
          ...(hasGet ? { get: { path: '/items/{item_id}' } } : {}),
        },
      },
    },
  };
}
