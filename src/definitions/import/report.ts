import type { Imported } from './import-service.ts';
import { type Outcome } from './entity-plan.ts';
import { furtherListings, unlistedEntities } from './sent-values.ts';
import type { Paging } from './paging.ts';
import { oneLine, textIn } from './schemas.ts';
import type { ServiceFile } from './service-file.ts';

/** How many entities became what. */
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

/** In a table. */
export function kindText(outcome: Outcome): string {
  const word = wordOf(outcome);
  return word === 'todo' ? 'TODO' : word === 'notChosen' ? 'not chosen' : word;
}

/** What became of an entity, in one line. */
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

/** Every entity with what became of it, as Markdown. */
export function reportText(service: ServiceFile, imports: readonly Imported[]): string {
  const head = [
    `# Import of ${service.title}`,
    '',
    `Source: ${service.name} ${service.version}, SHA-256 ${service.sha256}.`,
    ...service.licenseNote,
  ];
  const sections = imports.map(({ mode, outcomes, ways, baseUrl, definition }) => {
    const totals = totalsOf({ outcomes });
    const rows = [...outcomes].map(
      ([entity, outcome]) => `| ${cell(entity)} | ${kindText(outcome)} | ${cell(outcomeText(outcome))} |`,
    );
    return [
      '',
      `## ${mode === 'hosted' ? 'Through an API (hosted)' : 'From the service itself (direct)'}`,
      '',
      `${totals.entities} entities: ${totalsText(totals)}.`,
      '',
      '| entity | outcome | details |',
      '| --- | --- | --- |',
      ...rows,
      ...(mode === 'direct' && definition !== null
        ? ['', `Calls go to ${cell(baseUrl ?? '')}.`, '', ...signInLines(ways)]
        : []),
    ];
  });
  const without = [...unlistedEntities(service), ...furtherListings(service)];
  const unread = without.map(({ entity, why }) => `- ${cell(entity)}: ${cell(why)}`);
  const listless = unread.length === 0 ? [] : ['', '## Not listable', '', ...unread];
  return [...head, ...sections.flat(), ...listless, ''].join('\n');
}

function signInLines(ways: Imported['ways']): readonly string[] {
  return ways.map(({ title, auth, why, guesses }) => {
    if (auth === null) return `- ${cell(title)}: cannot be used: ${cell(why)}`;
    const tokenUrl = textIn(auth, 'tokenUrl');
    const sent = tokenUrl === null ? '' : `; client and tokens are sent to ${cell(tokenUrl)}`;
    const guessed = guesses.length === 0 ? '' : `; guessed: ${guesses.join(', ')}`;
    return `- ${cell(title)}: can be used${sent}${guessed}`;
  });
}

/** Text of a foreign file in a table. */
function cell(text: string): string {
  return oneLine(text, 300).replaceAll(/[|\\`<>[\]]/g, String.raw`\$&`);
}
