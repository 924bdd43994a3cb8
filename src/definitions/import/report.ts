import type { Question } from './answers.ts';
import type { Imported } from './import-service.ts';
import { furtherListings, unlistedEntities } from './listings.ts';
import { placeText, type Paging } from './paging.ts';
import { oneLine } from './parts.ts';
import type { Outcome } from './plan-entity.ts';
import type { ServiceFile } from './service-file.ts';
import { distinct, exampleOf } from './write-answers.ts';
import { placeOfAnswer } from './answers.ts';

/** How many entities became what. */
export interface Totals {
  readonly entities: number;
  readonly converted: number;
  readonly asked: number;
  readonly refused: number;
  readonly notChosen: number;
}

export function totalsOf({ outcomes }: Pick<Imported, 'outcomes'>): Totals {
  const kinds = [...outcomes.values()].map(({ kind }) => kind);
  const count = (kind: Outcome['kind']): number => kinds.filter((one) => one === kind).length;
  return {
    entities: kinds.length,
    converted: count('converted'),
    asked: count('asked'),
    refused: count('refused'),
    notChosen: count('notChosen'),
  };
}

/** `2 entities, 1 converted, 1 asked about, 0 refused`, as far as a person chose them. */
export function totalsText({ converted, asked, refused, notChosen }: Totals): string {
  const others = notChosen === 0 ? '' : `, ${notChosen} not chosen (--only)`;
  return `${converted} converted, ${asked} asked about, ${refused} refused${others}`;
}

const pagingWords: Readonly<Record<Exclude<Paging['kind'], 'single'>, string>> = {
  token: 'pages by token',
  address: 'pages by the next address',
  page: 'pages by number',
  offset: 'pages by offset',
  lastRecord: 'pages by the last record',
};

function pagingText(paging: Paging): string {
  if (paging.kind !== 'single') return pagingWords[paging.kind];
  const { more, isAnswered } = paging;
  return isAnswered && more !== null
    ? `one page, as answered: a sync fails where ${placeText(more)} says that more follows`
    : 'one page';
}

/** In a table. */
export function kindText({ kind }: Outcome): string {
  return kind === 'notChosen' ? 'not chosen' : kind;
}

/** What became of an entity, in one line. */
export function outcomeText(outcome: Outcome): string {
  switch (outcome.kind) {
    case 'converted': {
      const { key, paging, parents, fields, list } = outcome.plan;
      const above = parents.map(({ parent }) => parent.entity).join(', ');
      const isNested = fields.declared.some(({ name }) => name === 'has_children');
      return [
        `key ${key.join(', ') || 'none'}`,
        pagingText(paging),
        ...(above === '' ? [] : [`below ${above}`]),
        ...(list.isDeprecated ? ['deprecated by the file'] : []),
        ...(isNested ? ['listings inside its listings are not read'] : []),
      ].join('; ');
    }
    case 'asked':
      return distinct(outcome.questions).map(questionText).join('; ');
    case 'refused':
      return outcome.why;
    case 'notChosen':
      return 'left out by --only';
  }
}

function questionText(question: Question): string {
  return `${placeOfAnswer(question).join('.')}: ${question.why}`;
}

export function questionsIn(imports: readonly Imported[]): readonly Question[] {
  return distinct(
    imports.flatMap(({ outcomes }) =>
      [...outcomes.values()].flatMap((outcome) => (outcome.kind === 'asked' ? outcome.questions : [])),
    ),
  );
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
  const questions = questionsIn(imports);
  const asked = questions.flatMap((question) => [
    `- \`${placeOfAnswer(question).join('.')}\`: ${cell(question.why)} Such as \`${exampleOf(question)}\`.`,
  ]);
  const closing =
    asked.length === 0 ? [] : ['', '## Questions', '', 'Answers go into the file of answers.', '', ...asked];
  const without = [...unlistedEntities(service), ...furtherListings(service)];
  const unread = without.map(({ entity, why }) => `- ${cell(entity)}: ${cell(why)}`);
  const listless = unread.length === 0 ? [] : ['', '## Not listable', '', ...unread];
  return [...head, ...sections.flat(), ...closing, ...listless, ''].join('\n');
}

function signInLines(ways: Imported['ways']): readonly string[] {
  return ways.map(({ title, auth, why, tokenUrl, guesses }) => {
    if (auth === null) return `- ${cell(title)}: cannot be used: ${cell(why)}`;
    const sent = tokenUrl === null ? '' : `; client and tokens are sent to ${cell(tokenUrl)}`;
    const guessed = guesses.length === 0 ? '' : `; guessed: ${guesses.join(', ')}`;
    return `- ${cell(title)}: can be used${sent}${guessed}`;
  });
}

/** Text of a foreign file in a table. */
function cell(text: string): string {
  return oneLine(text, 300).replaceAll(/[|\\`<>[\]]/g, String.raw`\$&`);
}
