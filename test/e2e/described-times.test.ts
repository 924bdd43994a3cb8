import { describe, expect, it } from 'vitest';
import { keyedService, describedService, hostedAnswers } from '../support/described/described-service.ts';
import type { ReceivedRequest } from '../support/third-party/start-third-party.ts';

const things = (list: string): string => `{ things: { list: ${list} } }`;
const isCheck = ({ path }: ReceivedRequest): boolean => path === '/me';
const dayMs = 86_400_000;
const dateAt = (days: number): string => new Date(Date.now() + days * dayMs).toISOString().slice(0, 10);

describe('a listing that demands a span of time', () => {
  const entity = `entities:
  things:
    fields: { id: string }
    key: [id]
    actions: { list: { params: { start: { type: string, required: true }, end: string, at: integer, page: string } } }
    pagination: { kind: pageToken, tokenParam: page, tokenKeys: [next] }
    fixedParams:
      start: { days: -30, format: date }
      end: { days: 1, format: compactHour }
      at: { days: 0, format: unix }
    deletes: never
`;
  const requests =
    "{ path: /things, records: items, params: { start: { as: 'filter[from]' } }, paging: { kind: cursor, token: next } }";

  it('is asked for one that ends with the clock, the same on every page', async () => {
    const service = await keyedService({
      entities: entity,
      requests: things(requests),
      respond: (request) => {
        const isFirst = request.query.get('page') === null;
        return { body: { items: [{ id: isFirst ? '1' : '2' }], next: isFirst ? 'p2' : null } };
      },
    });
    const before = Date.now();
    const [earliest, latest] = [dateAt(-30), dateAt(1)];
    await service.sync();
    const [first, second] = service.requests
      .filter((request) => !isCheck(request))
      .map(({ query }) => Object.fromEntries(query));
    expect([earliest, dateAt(-30)]).toContain(first?.['filter[from]']);
    expect(first?.['end']).toMatch(/^\d{8}T\d{2}$/);
    expect([latest, dateAt(1)].map((date) => date.replaceAll('-', ''))).toContain(
      first?.['end']?.slice(0, 8),
    );
    expect(Number(first?.['at'])).toBeGreaterThanOrEqual(Math.floor(before / 1_000) - 2);
    expect(Number(first?.['at'])).toBeLessThanOrEqual(Date.now() / 1_000 + 1);
    expect(second).toEqual({ ...first, page: 'p2' });
    expect(service.rows('things').size).toBe(2);
    const listed = await service.cli('list', 'mine/things', '--json');
    expect(JSON.parse(listed.stdout)).toMatchObject({ records: [{ id: '1' }] });
    expect((await service.cli('check')).stdout).toContain('answered as the definition says');
  });

  it('is asked for it through an API too, and by a run that resumes with the time of its walk', async () => {
    const asked: Record<string, unknown>[] = [];
    const answer = hostedAnswers(({ params }) => {
      asked.push(params);
      const page = Number(params['page'] ?? '1');
      const next = page < 4 ? String(page + 1) : null;
      return { result: [{ id: String(page) }], connector_metadata: { next } };
    });
    let date = 'Fri, 01 May 2026 10:00:00 GMT';
    const service = await describedService({
      definition: entity,
      respond: (request, index) => {
        const reply = answer(request, index);
        return typeof reply === 'function' ? reply : { ...reply, headers: { date } };
      },
    });
    await service.cli('sync', '--max-calls', '2');
    expect(asked).toHaveLength(2);
    date = 'Sat, 02 May 2026 12:00:00 GMT';
    await service.sync();
    expect(asked.map(({ start, end, at }) => [start, end, at])).toEqual(
      Array.from({ length: 4 }, () => ['2026-04-01', '20260502T10', 1_777_629_600]),
    );
    await service.sync();
    expect(asked.at(-1)).toMatchObject({ start: '2026-04-02', end: '20260503T12' });
    expect(service.rows('things').size).toBe(4);
  });
});

describe('a change field that holds a number', () => {
  const requests = things("{ path: /things, records: '', params: { since: { as: 'updated[gte]' } } }");
  const entities = (type: string, format: string, param: string, more = ''): string => `entities:
  things:
    fields: { id: string, changed: ${type} }
    key: [id]
    actions: { list: { params: { since: ${param} } } }
    pagination: { kind: single }
    incremental: { kind: since, field: changed, format: ${format}, sinceParam: since, lookbackMs: 1000${more} }
`;
  const seconds = Math.floor(Date.now() / 1_000) - 1_000;

  it.each<[string, string, string, string, unknown, unknown, string]>([
    ['seconds', 'integer', 'unix', 'integer', seconds, seconds + 10, String(seconds - 2)],
    [
      'milliseconds',
      'integer',
      'unixMs',
      'string',
      seconds * 1_000,
      seconds * 1_000 + 5,
      `${seconds - 2}000`,
    ],
    [
      'seconds in a text',
      'string',
      'unix',
      'string',
      `${seconds}.000100`,
      `${seconds + 3}.5`,
      String(seconds - 2),
    ],
  ])(
    'of %s is asked for from the highest one on',
    async (_what, type, format, param, first, second, since) => {
      let rows = [{ id: '1', changed: first }];
      const respond = () => ({ body: rows });
      const service = await keyedService({ entities: entities(type, format, param), requests, respond });
      await service.sync();
      rows = [{ id: '2', changed: second }];
      await service.sync();
      const asked = service.requests.filter((request) => !isCheck(request));
      const [atFirst, then] = asked.map(({ query }) => query.get('updated[gte]'));
      expect(atFirst).toBeNull();
      expectAbout(then, since, format === 'unix' ? 1 : 1_000);
      // What was not listed is no deleted record.
      expect(service.rows('things').size).toBe(2);
      const explained = await service.cli('explain', 'mine/things', '--key', 'id=2');
      expect(explained.stdout).toContain(
        new Date(Number(second) * (format === 'unix' ? 1_000 : 1)).toISOString(),
      );
    },
  );

  it('may be a text where the parameter is a number', async () => {
    const time = new Date(seconds * 1_000).toISOString();
    const service = await keyedService({
      entities: entities('string', 'unix', 'integer', ', sinceFormat: unix').replace(
        'format: unix, sinceParam',
        'sinceParam',
      ),
      requests,
      respond: () => ({ body: [{ id: '1', changed: time }] }),
    });
    await service.sync();
    await service.sync();
    expectAbout(service.requests.at(-1)?.query.get('updated[gte]'), String(seconds - 2), 1);
  });
});

/** Up to a second earlier where the answers were slow: the service's clock is known less well then. */
function expectAbout(asked: string | null | undefined, since: string, second: number): void {
  expect(asked).toMatch(/^\d+$/);
  const earlier = Number(since) - Number(asked);
  expect([0, second]).toContain(earlier);
}
