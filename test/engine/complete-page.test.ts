import { describe, expect, it } from 'vitest';
import { SyncError, ThrottledError, type Recovery } from '../../src/core/errors.ts';
import type { JsonValue } from '../../src/core/json.ts';
import { compileCompletePage } from '../../src/engine/complete-page.ts';
import { textOf } from '../../src/sample/sample-values.ts';
import { type Source, readRecords } from '../../src/source/source.ts';
import { builtInDefinition } from '../support/sample-service.ts';
import { entityNamed } from '../support/sync-once.ts';

const notes = builtInDefinition('workspace-notes');
const part = (id: string): JsonValue => ({ object: 'page', id });
const whole = (id: string): JsonValue => ({
  object: 'page',
  id,
  created_time: '2026-01-01T00:00:00.000Z',
  last_edited_time: '2026-01-01T00:00:00.000Z',
  parent: { type: 'workspace', workspace: true },
  properties: {},
});

function pageOf(...records: readonly JsonValue[]) {
  return { records: readRecords(records), next: null, serverTime: null, bytes: 1 };
}

/** Pages that are completed one after another, by what `get` answers for each id. */
function completing(answer: (id: string) => JsonValue, signal = new AbortController().signal) {
  const asked: string[] = [];
  const get: Source['get'] = async ({ params }) => {
    const id = textOf(params['page_id']);
    asked.push(id);
    return await Promise.resolve(answer(id));
  };
  const source = { get } as unknown as Source;
  const complete = compileCompletePage(entityNamed(notes, 'pages'), { source, concurrency: 1, signal });
  return {
    asked,
    complete: async (...records: readonly JsonValue[]) => {
      const { page, unanswered } = await complete({ inject: {}, params: {} }, pageOf(...records));
      return { records: [...page.records], unanswered };
    },
  };
}

const fails = (recovery: Recovery, code: 'UPSTREAM' | 'BUDGET_SPENT' = 'UPSTREAM'): never => {
  throw new SyncError('no answer', { code, recovery });
};
const many = Array.from({ length: 150 }, (_, index) => part(`p${index}`));

describe('a page with records that came in part', () => {
  it('is completed by get, each record in its place, and nothing else is asked for', async () => {
    const { complete, asked } = completing(whole);
    const other = { object: 'data_source', id: 'd1' };
    expect(await complete(whole('a'), part('b'), other, { object: 'page' }, part('c'))).toEqual({
      records: [whole('a'), whole('b'), other, { object: 'page' }, whole('c')],
      unanswered: 0,
    });
    expect(asked).toEqual(['b', 'c']);
  });

  it('stays as it came where get answers with a part, with another record or with none', async () => {
    const answers = new Map([
      ['a', part('a')],
      ['b', whole('x')],
      ['c', null],
    ]);
    const { complete } = completing((id) => answers.get(id) ?? null);
    const records = [part('a'), part('b'), part('c')];
    expect(await complete(...records)).toEqual({ records, unanswered: 0 });
  });

  it('is no longer asked about after a hundred in a row that get does not give whole', async () => {
    const { complete, asked } = completing(part);
    expect(await complete(...many)).toMatchObject({ unanswered: 0 });
    expect(await complete(part('later'))).toMatchObject({ unanswered: 0 });
    expect(asked).toHaveLength(100);
  });

  it('is no longer asked about where get refuses the entity as a whole', async () => {
    const { complete, asked } = completing(() => fails('skip-entity'));
    await complete(...many);
    expect(await complete(part('later'))).toMatchObject({ unanswered: 0 });
    expect(asked).toHaveLength(1);
  });

  it('says how many are to be asked about by a later walk where five in a row get no answer', async () => {
    const { complete, asked } = completing((id) => (id === 'p0' ? whole(id) : fails('retry')));
    expect(await complete(...many)).toMatchObject({ unanswered: 149 });
    expect(asked).toHaveLength(6);
  });

  it.each([
    ['the calls are used up', () => fails('stop', 'BUDGET_SPENT')],
    [
      'the service asks for a pause',
      (): never => {
        throw new ThrottledError('later', 600_000);
      },
    ],
  ])('keeps what was got when %s', async (_, fail) => {
    const { complete } = completing((id) => (id === 'a' ? whole(id) : fail()));
    expect(await complete(part('a'), part('b'), part('c'))).toEqual({
      records: [whole('a'), part('b'), part('c')],
      unanswered: 2,
    });
  });

  it('is given up when the run must end', async () => {
    await expect(completing(() => fails('stop')).complete(part('a'))).rejects.toThrow('no answer');
  });
});
