import { describe, expect, it } from 'vitest';
import { describedService, hostedAnswers } from '../support/described/described-service.ts';

const definition = `entities:
  sites:
    fields: { id: string }
    key: [id]
    actions: { list: {} }
    pagination: { kind: single }
  visits:
    fields: { site_id: string, day: string, count: integer, rank: integer, links: array }
    key: none
    ignored: [request_id]
    volatile: [rank, 'links.*.token']
    actions: { list: { params: { site: { type: string, required: true }, page: string } } }
    pagination: { kind: pageToken, tokenParam: page, tokenKeys: [next] }
    parents: [{ entity: sites, params: { site: id }, inject: { site_id: site } }]
    deletes: never
`;

describe('a listing without a key', () => {
  it('is stored by what its records say, and never deleted', async () => {
    let requests = 0;
    let visits = [
      { day: '2026-05-01', count: 4, more: { a: 1, b: 2 } },
      { day: '2026-05-02', count: 7 },
    ];
    const service = await describedService({
      definition,
      respond: hostedAnswers(({ entity }) => {
        if (entity === 'sites') return { result: [{ id: 's1' }, { id: 's2' }] };
        requests += 1;
        const changing = { request_id: requests, rank: requests, links: [{ token: `t${requests}` }] };
        return {
          result: visits.map((visit) => ({ ...visit, ...changing })),
          connector_metadata: { next: null },
        };
      }),
    });
    await service.sync();
    const rows = (): readonly string[] =>
      [...service.rows('visits').values()]
        .map(({ columns }) => JSON.stringify([columns['site_id'], columns['day'], columns['count']]))
        .toSorted();
    const before = [
      '["s1","2026-05-01",4]',
      '["s1","2026-05-02",7]',
      '["s2","2026-05-01",4]',
      '["s2","2026-05-02",7]',
    ];
    expect(rows()).toEqual(before);
    for (const { columns } of service.rows('visits').values()) {
      expect(columns['record_hash']).toMatch(/^[0-9a-f]{32}$/);
    }
    // The same records in another order, and with other names first, are the same rows.
    visits = [
      { count: 7, day: '2026-05-02' },
      { more: { b: 2, a: 1 }, count: 4, day: '2026-05-01' },
    ];
    expect(countsOf(await service.sync('--full'))).toMatchObject({ inserted: 0, deleted: 0 });
    expect(rows()).toEqual(before);
    // One that changes is another row; none is deleted.
    visits = [{ day: '2026-05-02', count: 8 }];
    expect(countsOf(await service.sync('--full'))).toMatchObject({ inserted: 2, deleted: 0 });
    expect(rows()).toEqual([...before, '["s1","2026-05-02",8]', '["s2","2026-05-02",8]'].toSorted());
    const text = 'without a key: visits (a record that changes is another row, and none counts as deleted)';
    expect((await service.cli('status')).stdout).toContain(text);
    expect((await service.cli('check')).stdout).toContain(text);
  });

  it('keeps a field of that name that the service sends, and equal records once', async () => {
    const service = await describedService({
      definition:
        definition.slice(0, definition.indexOf('  sites')) +
        `  visits:
    fields: { count: integer }
    key: none
    actions: { list: {} }
    pagination: { kind: single }
    deletes: never
`,
      respond: hostedAnswers(() => ({
        result: [{ count: 1, record_hash: 'mine' }, { count: 2 }, { count: 2 }, {}, 'x'],
      })),
    });
    await service.cli('sync');
    const stored = [...service.rows('visits').values()];
    expect(stored.map(({ columns, extra }) => [columns['count'], extra])).toEqual(
      expect.arrayContaining([
        [1, { record_hash: 'mine' }],
        [2, null],
        [null, null],
      ]),
    );
    expect(stored).toHaveLength(3);
    expect((await service.cli('status')).stdout).toContain('1 record in quarantine');
  });
});

function countsOf(report: Record<string, unknown>): object {
  // `as`: the program's own report.
  const entities = report['entities'] as readonly { entity: string; deleted: number; counts: object }[];
  const found = entities.find(({ entity }) => entity === 'visits');
  return { ...found?.counts, deleted: found?.deleted };
}
