import { expect, it } from 'vitest';
import { createSampleAccount } from '../../src/sample/sample-service.ts';
import { sampleTruth } from '../support/sample-truth.ts';
import { editAccount, type EditedAccount } from '../support/service/edited-account.ts';
import { notes, sampleAccounts, serveApi, text } from '../support/service/served-api.ts';

it('shows edits to clients and in the truth, and forgets none between pages', async () => {
  const edited: EditedAccount[] = [];
  const wrap: NonNullable<Parameters<typeof serveApi>[0]>['accounts'] = sampleAccounts('tiny').map(
    (account) => ({
      ...account,
      wrap: (inner) => {
        const own = editAccount(inner);
        edited.push(own);
        return own;
      },
    }),
  );
  await using api = await serveApi({ accounts: wrap });
  const account =
    edited[1] ??
    editAccount(createSampleAccount({ definitionName: 'workspace-notes', seed: 7, size: 'tiny' }));
  const names = async (): Promise<readonly string[]> => {
    const first = await api.list(notes, 'users', { page_size: 2 });
    const rest = await api.list(notes, 'users', { start_cursor: first.metadata['next_cursor'] ?? null });
    return [...first.records, ...rest.records].map(({ name }) => text(name));
  };
  const before = await names();
  const ids = [...sampleTruth(account, 'users')].map(({ record }) => text(record['id']));

  account.remove('users', ids[0] ?? '');
  account.change('users', ids[1] ?? '', (user) => ({ ...user, name: 'Moved' }), 'toEnd');
  account.change('users', ids[2] ?? '', (user) => ({ ...user, name: 'Stayed' }));
  account.add('users', { object: 'user', id: 'new', name: 'New', type: 'person' });
  const after = ['Stayed', before[3], 'New', 'Moved'];
  expect(await names()).toEqual(after);
  expect([...sampleTruth(account, 'users')].map(({ record }) => record['name'])).toEqual(after);
  const get = async (id: string) =>
    await api.execute(notes, { entity: 'users', action: 'get', params: { user_id: id } });
  expect((await get(ids[0] ?? '')).status).toBe(404);
  expect((await get(ids[2] ?? '')).body['result']).toMatchObject({ name: 'Stayed' });

  account.restore('users', ids[0] ?? '');
  expect(await names()).toEqual([before[0], ...after]);
});
