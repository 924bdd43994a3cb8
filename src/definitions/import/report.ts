import type { Imported } from './import-service.ts';
import { type Outcome } from './entity-plan.ts';
import type { Paging } from './paging.ts';

/** Counts the entities by result. */
export interface Totals {
  readonly entities: number;
  readonly converted: number;
  /** Converted ones with a `# TODO`. */
  readonly open: number;
  readonly refused: number;
  readonly notChosen: number;
}

export function totalsOf({ outcomes }: Pick<Imported, 'outcomes'>): Totals {
  const all = [...outcomes.values()];
  const kinds = all.map(({ kind }) => kind);
  const count = (kind: Outcome['kind']): number => kinds.filter((one) => one === kind).length;
  return {
    entities: kinds.length,
    converted: count('converted'),
    open: all.filter((one) => wordOf(one) === 'todo').length,
    refused: count('refused'),
    notChosen: count('notChosen'),
  };
}

/** `todo`: converted with guesses. */
export function wordOf(outcome: Outcome): Outcome['kind'] | 'todo' {
  return outcome.kind === 'converted' && outcome.plan.open.length > 0 ? 'todo' : outcome.kind;
}

/** `2 entities, 1 converted, 1 with a TODO, 0 refused`, as far as a person chose them. */
export function totalsText({ converted, open, refused, notChosen }: Totals): string {
  const others = notChosen === 0 ? '' : `, ${notChosen} not chosen (--only)`;
  return `${converted - open} converted, ${open} with a TODO, ${refused} refused${others}`;
}

const pagingWords: Readonly<Record<Exclude<Paging['kind'], 'single'>, string>> = {
  token: 'pages by token',
  address: 'pages by the next address',
  page: 'pages by number',
  offset: 'pages by offset',
  lastRecord: 'pages by the last record',
};

/** The result for a cell of a table. */
export function kindText(outcome: Outcome): string {
  const word = wordOf(outcome);
  return word === 'todo' ? 'TODO' : word === 'notChosen' ? 'not chosen' : word;
}

/** Describes the result for an entity in one line. */
export function outcomeText(outcome: Outcome): string {
  switch (outcome.kind) {
    case 'converted': {
      const { key, paging, parents, fields, list, open } = outcome.plan;
      if (open.length > 0) return open.map(({ text }) => text).join('; ');
      const above = parents.map(({ parent }) => parent.entity).join(', ');
      const isNested = fields.declared.some(({ name }) => name === 'has_children');
      return [
        `key ${key.join(', ') || 'none'}`,
        paging.kind === 'single' ? 'one page' : pagingWords[paging.kind],
        ...(above === '' ? [] : [`below ${above}`]),
        ...(list.isDeprecated ? ['deprecated by the file'] : []),
        ...(isNested ? ['listings inside its listings are not read'] : []),
      ].join('; ');
    }
    case 'refused':
      return outcome.why;
    case 'notChosen':
      return 'left out by --only';
  }
}
