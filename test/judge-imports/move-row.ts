import type { Account } from './made-up-account.ts';
import { textOf } from './paging-kinds.ts';

/** In one listing with pages a record comes, goes or, where nothing keeps its place, moves to the front. */
export function moveRow(account: Account, random: () => number, moved: Set<string>): void {
  const paged = [...account.values()].filter(({ listing }) => listing.pages.longest > 0);
  const { listing, ids = [], scopes, make } = pick(paged, random) ?? {};
  const { params, rows } =
    pick(
      [...(scopes?.values() ?? [])].filter((scope) => scope.rows.length > 2),
      random,
    ) ?? {};
  if (listing === undefined || make === undefined || params === undefined || rows === undefined) return;
  const note = (record: (typeof rows)[number]['record']): void => {
    for (const id of ids) moved.add(textOf(record[id]));
  };
  const at = Math.floor(random() * rows.length);
  const dice = random();
  if (dice < 0.4) {
    for (const { record } of rows.splice(at, 1)) note(record);
  } else if (dice < 0.7 || listing.pages.isStable) {
    const record = make(params);
    note(record);
    const before = rows[at - 1]?.rank ?? (rows[0]?.rank ?? 0) - 2;
    rows.splice(at, 0, { rank: (before + (rows[at]?.rank ?? before + 2)) / 2, record });
  } else {
    const [row] = rows.splice(at, 1);
    if (row === undefined) return;
    note(row.record);
    rows.unshift({ ...row, rank: (rows[0]?.rank ?? 0) - 1 });
  }
}

/** With all records below those that moved: their listings are read only if the parent was met. */
export function withChildren(account: Account, moved: ReadonlySet<string>): ReadonlySet<string> {
  const all = new Set(moved);
  // Parents come first.
  for (const { ids, scopes } of account.values()) {
    for (const { params, rows } of scopes.values()) {
      if (!Object.values(params).some((value) => all.has(value))) continue;
      for (const { record } of rows) for (const id of ids) all.add(textOf(record[id]));
    }
  }
  return all;
}

function pick<One>(list: readonly One[], random: () => number): One | undefined {
  return list[Math.floor(random() * list.length)];
}
