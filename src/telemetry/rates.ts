/** What came in one second. */
export interface Arrivals {
  /** Since the epoch. */
  readonly second: number;
  readonly pages: number;
  readonly records: number;
}

export const rateWindowMs = 10_000;

/** The arrivals of the last ten seconds, with one more page. */
export function withArrival(
  arrivals: readonly Arrivals[],
  records: number,
  nowMs: number,
): readonly Arrivals[] {
  const second = Math.floor(nowMs / 1000);
  const last = arrivals.at(-1);
  if (last?.second !== second) return [...recent(arrivals, nowMs), { second, pages: 1, records }];
  return [...arrivals.slice(0, -1), { second, pages: last.pages + 1, records: last.records + records }];
}

/** Per second over the last ten seconds (or since the start, when that is less). */
export function rates(
  { arrivals, startedAtMs }: { readonly arrivals: readonly Arrivals[]; readonly startedAtMs: number },
  nowMs: number,
): Pick<Arrivals, 'pages' | 'records'> {
  const seconds = Math.min(rateWindowMs, Math.max(nowMs - startedAtMs, 1000)) / 1000;
  const latest = recent(arrivals, nowMs);
  return {
    pages: latest.reduce((sum, { pages }) => sum + pages, 0) / seconds,
    records: latest.reduce((sum, { records }) => sum + records, 0) / seconds,
  };
}

function recent(arrivals: readonly Arrivals[], nowMs: number): readonly Arrivals[] {
  const oldest = (nowMs - rateWindowMs) / 1000;
  return arrivals.filter(({ second }) => second >= oldest);
}
