import { describe, expect, it } from 'vitest';
import { keyedService } from '../support/described/described-service.ts';
import { seededRandom } from '../support/seeded-random.ts';

const ids = (count: number): { readonly id: string }[] =>
  Array.from({ length: count }, (_none, at) => ({ id: String(at) }));

/** 57 agents by page number, 20 a page whatever is asked for, without a total; and what comes behind the last page. */
async function syncAgents(
  behind: 'refused' | 'repeated',
  said: string,
  sent = ', params: { count: { as: per_page } }',
) {
  const rows = ids(57);
  const service = await keyedService({
    entities: `entities:
  agents:
    fields: { id: string }
    key: [id]
    growsOnly: true
    deletes: never
    actions: { list: { params: { offset: integer, count: integer } } }
    pagination: { kind: offset, offsetParam: offset, sizeParam: count, maxSize: 20 }
`,
    requests: `{ agents: { list: { path: /agents, records: '', paging: { kind: page, param: page, first: 1${said} }${sent} } } }`,
    respond: ({ query }) => {
      const last = Math.ceil(rows.length / 20);
      const page = Number(query.get('page'));
      if (page > last && behind === 'refused') return { status: 404, body: { error: 'no such page' } };
      const shown = Math.min(page, last);
      return { body: rows.slice((shown - 1) * 20, shown * 20) };
    },
  });
  const { code, stdout } = await service.cli('sync');
  return {
    code,
    stdout,
    stored: service.rows('agents').size,
    isComplete: /^ *agents .*\byes\b/m.test(stdout),
    sizesSent: service.requests.filter(({ query }) => query.has('per_page')).length,
  };
}

describe('a sync of a service that numbers its pages', () => {
  it('takes the refusal that its definition names for the end', async () => {
    const found = await syncAgents('refused', ', end: { status: 404 }');
    expect(found).toMatchObject({ code: 0, stored: 57, isComplete: true });
  });

  it('takes the page that comes again for the end where its definition says so', async () => {
    const found = await syncAgents('repeated', ', end: repeats');
    expect(found).toMatchObject({ code: 0, stored: 57, isComplete: true });
  });

  // Proves promise 3
  it('is not proven by a page that comes again otherwise, and advises what to say', async () => {
    const found = await syncAgents('repeated', '');
    expect(found).toMatchObject({ code: 0, stored: 57, isComplete: false });
    expect(found.stdout).toMatch(/^ *agents .*\bpart missing\b/m);
    expect(found.stdout).toContain('if the service ignores the parameter of the page, the rest is missing');
  });

  it('sends no size where its pages have one of their own', async () => {
    const found = await syncAgents('refused', ', fixed: true, end: { status: 404 }', '');
    expect(found).toMatchObject({ code: 0, stored: 57, isComplete: true, sizesSent: 0 });
  });
});

describe('a sync of a service by offset, without a total', () => {
  /** `answer`: the records from `start` on, or the status that refuses them, to the call of this number. */
  async function sync(answer: (start: number, calls: number) => readonly unknown[] | number, said = '') {
    const service = await keyedService({
      entities: `entities:
  things:
    fields: { id: string }
    key: [id]
    actions: { list: { params: { offset: integer, limit: integer } } }
    pagination: { kind: offset, offsetParam: offset, sizeParam: limit, maxSize: 20${said} }
`,
      requests: '{ things: { list: { path: /things, records: items } } }',
      respond: ({ query }, calls) => {
        const answered = answer(Number(query.get('offset') ?? 0), calls);
        return typeof answered === 'number'
          ? { status: answered, body: { error: 'out of range' } }
          : { body: { items: answered } };
      },
    });
    const { code, stdout, stderr } = await service.cli('sync');
    const asked = service.requests.flatMap(({ path: at, query }) =>
      at === '/things' ? [Number(query.get('offset') ?? 0)] : [],
    );
    return { code, said: stdout + stderr, stored: service.rows('things').size, asked };
  }

  // Proves promise 3
  it('takes an error 500 behind its end for an empty page, once its first page shows that it is up', async () => {
    const { code, said, stored, asked } = await sync((start) =>
      start >= 50 ? 500 : ids(50).slice(start, start + 20),
    );
    expect({ code, stored, asked }).toEqual({ code: 0, stored: 50, asked: [0, 16, 32, 47, 67, 0, 67, 87] });
    expect(said).toContain('8 calls, 0 retries');
    expect(said).not.toContain('part missing');
  });

  it.each([
    ['a refusal', ', end: { status: 404 }', 404],
    ['the last page again', ', end: repeats', ids(50).slice(47)],
  ])('takes what its definition names for the end: %s', async (_what, end, behind) => {
    const found = await sync((start) => (start >= 50 ? behind : ids(50).slice(start, start + 20)), end);
    expect(found).toMatchObject({ code: 0, stored: 50 });
    expect(found.said).not.toContain('part missing');
  });

  it('says beside the rows that it has stored that it has not seen the end', async () => {
    const { code, said, stored } = await sync((start) =>
      start + 20 > 52 ? 416 : ids(52).slice(start, start + 20),
    );
    expect({ code, stored }).toEqual({ code: 1, stored: 52 });
    expect(said).toContain('no listing could be read to its end');
    expect(said).not.toContain('nothing could be read');
  });

  // Proves promise 3
  it('is part missing where it changes its order from call to call, and reports that', async () => {
    const { said } = await sync((start, calls) => {
      const random = seededRandom(calls + 1);
      const moved = ids(200).map((one, place) => ({ one, place: place + 10 * random() }));
      const shuffled = moved.toSorted((a, b) => a.place - b.place);
      return shuffled.slice(start, start + 20).map(({ one }) => one);
    });
    expect(said).toMatch(/^ *things .*\bpart missing\b/m);
    expect(said).toContain('the service changes their order from call to call');
  });
});
