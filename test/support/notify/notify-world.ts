import { appendFileSync } from 'node:fs';
import { join } from 'node:path';
import Database from 'better-sqlite3';
import { ApiError } from '../../../src/service/api-error.ts';
import { openCliWorld, type CliWorld, type CliWorldOptions } from '../cli-world.ts';
import { startReceiver } from './receiver.ts';

/** A service, a config whose `notify` leads to a receiver, and the program. `notify` has `URL` for the receiver's. */
export async function openNotifyWorld(
  notify: string,
  { more = '', ...options }: CliWorldOptions & { readonly more?: string } = {},
) {
  const receiver = await startReceiver();
  let refused: readonly string[] = [];
  const world = await openCliWorld({
    settings: '    include: [lists, campaigns]\n',
    ...options,
    wrap: (account) => ({
      get: (entity, params) => account.get(entity, params),
      list: (entity, params) => {
        if (refused.includes(entity)) throw new ApiError(403, 'the key of this account may not read it');
        return account.list(entity, params);
      },
    }),
  });
  appendFileSync(
    world.config,
    `allowNotifyHosts: ["${receiver.host}"]\nnotify:\n${notify.replaceAll('URL', receiver.url)}\n${more}`,
  );
  return {
    world,
    receiver,
    /** From now on the service refuses to list these entities of the newsletter. */
    refuse: (...entities: readonly string[]) => {
      refused = entities;
    },
    /** One sync of the newsletter; gives its exit code and what it wrote. */
    sync: async (...flags: readonly string[]) => await world.cli('sync', 'newsletter', ...flags),
    [Symbol.asyncDispose]: async () => {
      await world[Symbol.asyncDispose]();
      await receiver[Symbol.asyncDispose]();
    },
  };
}

/** What is stored of the newsletter is as of years ago. */
export function makeOld({ folder }: Pick<CliWorld, 'folder'>): void {
  const db = new Database(join(folder, 'main.db'));
  db.exec("UPDATE _sync_tables SET as_of = '2020-01-01T00:00:00.000Z' WHERE connector = 'newsletter'");
  db.close();
}
