import { describe, expect, it } from 'vitest';
import type { JsonObject } from '../../src/core/json.ts';
import type { SourcePage } from '../../src/source/source.ts';
import { pagedRows, type PagedRowsOptions } from '../support/hostile/paged-rows.ts';
import { failureOf, never, openTestSource } from '../support/source/open-test-source.ts';
import { entityName } from '../support/source/test-definition.ts';

const rowsTo = (count: number): JsonObject[] =>
  Array.from({ length: count }, (_none, at) => ({ id: `r${at}` }));

async function serve(count: number, options: PagedRowsOptions) {
  const table = pagedRows(rowsTo(count), options);
  const { source } = await openTestSource({ respond: table.reply });
  const entity = entityName(options.paging === 'offset' ? 'members' : 'notes');
  return { table, page: (params: JsonObject) => source.list({ entity, params, isRoot: true }, never) };
}

const ids = ({ records }: SourcePage) => [...records].map((record) => (record as { id: string }).id);

describe('a service that pages by offset', () => {
  it('answers what is there, and nothing behind the end', async () => {
    const { page } = await serve(5, { paging: 'offset' });
    expect(ids(await page({ count: 3, offset: 0 }))).toEqual(['r0', 'r1', 'r2']);
    expect(ids(await page({ count: 3, offset: 3 }))).toEqual(['r3', 'r4']);
    expect((await page({ count: 3, offset: 6 })).records.length).toBe(0);
  });

  it('may cap the page silently', async () => {
    const { page } = await serve(50, { paging: 'offset', silentCap: 4 });
    expect((await page({ count: 1000, offset: 0 })).records.length).toBe(4);
  });

  it('may shift rows between pages', async () => {
    const { page } = await serve(6, {
      paging: 'offset',
      beforePage: (rows, _call, index) => {
        if (index === 1) rows.shift();
      },
    });
    expect(ids(await page({ count: 3, offset: 0 }))).toEqual(['r0', 'r1', 'r2']);
    expect(ids(await page({ count: 3, offset: 3 }))).toEqual(['r4', 'r5']);
  });

  it('may ignore paging', async () => {
    const { page } = await serve(6, { paging: 'offset', bend: { kind: 'ignores-paging' } });
    expect(ids(await page({ count: 2, offset: 4 }))).toEqual(['r0', 'r1']);
  });
});

describe('a service that pages by token', () => {
  const walk = async (
    page: (params: JsonObject) => Promise<SourcePage>,
    most: number,
  ): Promise<SourcePage[]> => {
    const pages = [await page({ page_size: 2 })];
    for (let token = pages[0]?.next?.token; token !== null && token !== undefined && pages.length < most;) {
      const next = await page({ page_size: 2, start_cursor: token });
      pages.push(next);
      token = next.next?.token;
    }
    return pages;
  };

  it('leads through all rows', async () => {
    const { page } = await serve(5, { paging: 'token' });
    const pages = await walk(page, 10);
    expect(pages.flatMap(ids)).toEqual(['r0', 'r1', 'r2', 'r3', 'r4']);
    expect(pages.at(-1)?.next).toEqual({ hasMore: false, token: null });
  });

  it('may send empty pages in between', async () => {
    const { page } = await serve(4, { paging: 'token', bend: { kind: 'empty-pages' } });
    const pages = await walk(page, 10);
    expect(pages.map(({ records }) => records.length)).toEqual([0, 2, 0, 2]);
  });

  it('may repeat a token, lead in circles or say more without a token', async () => {
    const repeated = await serve(6, { paging: 'token', bend: { kind: 'repeated-token' } });
    const tokens = (await walk(repeated.page, 3)).map(({ next }) => next?.token);
    expect(new Set(tokens).size).toBe(1);
    const cycle = await serve(6, { paging: 'token', bend: { kind: 'cycle', length: 2 } });
    expect((await walk(cycle.page, 4)).map(ids).at(2)).toEqual(['r0', 'r1']);
    const endless = await serve(6, { paging: 'token', bend: { kind: 'more-without-token' } });
    expect((await walk(endless.page, 4))[0]?.next).toEqual({ hasMore: true, token: null });
  });

  it('may refuse a token as expired', async () => {
    const { page } = await serve(6, { paging: 'token', bend: { kind: 'expired', fromCall: 1, times: 1 } });
    expect(await failureOf(walk(page, 9))).toMatchObject({ code: 'TOKEN_EXPIRED', recovery: 'restart-walk' });
    expect((await walk(page, 9)).flatMap(ids)).toHaveLength(6);
  });
});
