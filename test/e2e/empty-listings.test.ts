import { expect, it } from 'vitest';
import { keyedService, type DescribedService } from '../support/described/described-service.ts';
import { jsonLines } from '../support/run-cli.ts';

const service = async (members: (group: number) => unknown): Promise<DescribedService> =>
  await keyedService({
    entities: `entities:
  groups: { fields: { id: string }, key: [id], actions: { list: {} }, pagination: { kind: single } }
  members:
    fields: { id: string }
    key: [id]
    actions: { list: { params: { group: { type: string, required: true } } } }
    pagination: { kind: single }
    parents: [{ entity: groups, params: { group: id } }]
`,
    requests:
      "{ groups: { list: { path: /groups, records: items } }, members: { list: { path: '/groups/{group}/members', records: items } } }",
    respond: ({ path }) => {
      if (path === '/groups') {
        return { body: { items: Array.from({ length: 40 }, (_none, at) => ({ id: String(at) })) } };
      }
      return { body: { items: members(Number(path.split('/')[2])) } };
    },
  });

const reported = async (described: DescribedService, ...options: readonly string[]) => {
  const result = await described.cli('sync', '--json', ...options);
  // `as`: the program's own report.
  const { report } = jsonLines(result).find(({ kind }) => kind === 'run-report') as {
    readonly report: {
      readonly error: unknown;
      readonly entities: readonly { readonly entity: string; readonly unordered: number }[];
      readonly failures: readonly unknown[];
    };
  };
  return {
    ...report,
    code: result.code,
    members: report.entities.find(({ entity }) => entity === 'members'),
  };
};

const three = (group: number): unknown => [1, 2, 3].map((at) => ({ id: `${group}-${at}` }));

// Proves promise 8.1
it('fails the listings alone that answer with no listing, however many there are before the first good one', async () => {
  const described = await service((group) => (group < 30 ? false : three(group)));
  const { code, error, failures } = await reported(described);
  expect({ code, error }).toEqual({ code: 3, error: null });
  expect(failures).toHaveLength(30);
  expect(described.rows('members').size).toBe(30);
});

// Proves promise 4
it('takes null for an empty listing, and for a weak proof where rows of the listing are stored', async () => {
  let empty = 30;
  const described = await service((group) => (group < empty ? null : three(group)));
  expect(await reported(described)).toMatchObject({ code: 0, members: { isProven: true, unordered: 0 } });
  expect(described.rows('members').size).toBe(30);
  empty = 31;
  const second = await reported(described, '--full');
  expect(second).toMatchObject({ code: 0, members: { unordered: 1, deleted: 0 } });
  const third = await reported(described, '--full');
  expect(third).toMatchObject({ members: { deleted: 3 } });
});
