import { placeOfAnswer, type Answers, type Question } from './answers.ts';
import { oneLine } from './parts.ts';

/** A line of the file: one without a value is a comment. */
interface Line {
  readonly level: number;
  readonly text: string;
  readonly isGiven: boolean;
}

/** The file of answers: those that were given, and behind a `#` those that are missing. */
export function answersText(service: string, answers: Answers, questions: readonly Question[]): string {
  const open = distinct(questions);
  const missing = (...place: readonly string[]): readonly Question[] =>
    open.filter((question) => {
      const found = placeOfAnswer(question);
      return place.length === found.length - 1 && place.every((name, index) => name === found[index]);
    });
  const entities = [
    ...new Set([
      ...Object.keys(answers.entities),
      ...open.flatMap((question) => ('entity' in question ? [question.entity] : [])),
    ]),
  ];
  const ofEntities = entities.flatMap((entity) => {
    const { values, ...given } = answers.entities[entity] ?? { values: {} };
    const ofValues = section(2, 'values', lines(3, values, missing('entities', entity, 'values')));
    return section(1, entity, [...lines(2, given, missing('entities', entity)), ...ofValues]);
  });
  const all = [
    ...section(0, 'server', lines(1, answers.server, missing('server'))),
    ...section(0, 'values', lines(1, answers.values, missing('values'))),
    ...section(0, 'entities', ofEntities),
  ];
  return [
    `# Answers for the import of ${service}. Remove the # in front of a line and of those that it stands below, fill it`,
    '# in, and import again.',
    ...all.map(({ level, text, isGiven }) => `${isGiven ? '' : '# '}${'  '.repeat(level)}${text}`),
    '',
  ].join('\n');
}

/** Each thing that is asked for once, however many entities lack it. */
export function distinct(questions: readonly Question[]): readonly Question[] {
  const byPlace = new Map(questions.map((one) => [placeOfAnswer(one).join(' '), one] as const));
  return [...byPlace.values()];
}

function section(level: number, name: string, inner: readonly Line[]): readonly Line[] {
  if (inner.length === 0) return [];
  return [{ level, text: `${key(name)}:`, isGiven: inner.some(({ isGiven }) => isGiven) }, ...inner];
}

function lines(
  level: number,
  given: Readonly<Record<string, unknown>>,
  missing: readonly Question[],
): readonly Line[] {
  const values = Object.entries(given).flatMap(([name, value]): readonly Line[] =>
    value === undefined ? [] : [{ level, text: `${key(name)}: ${JSON.stringify(value)}`, isGiven: true }],
  );
  const questions = missing.flatMap((question): readonly Line[] => {
    const name = placeOfAnswer(question).at(-1) ?? '';
    const text = `${key(name)}: ${exampleOf(question)}`;
    return [
      { level, text: `# ${oneLine(question.why, 200)}`, isGiven: false },
      { level, text, isGiven: false },
    ];
  });
  return [...values, ...questions];
}

function key(name: string): string {
  return /^[A-Za-z_][\w-]*$/.test(name) ? name : JSON.stringify(name);
}

/** What an answer looks like, with what it could be. */
export function exampleOf(question: Question): string {
  const { kind, choices } = question;
  switch (kind) {
    case 'key':
      return choices.length === 0 ? 'none' : `[${choices.slice(0, 12).join(', ')}]`;
    case 'paging':
      return choices[0] ?? '{ by: page, param: page }';
    case 'server':
    case 'records':
    case 'value':
    case 'ownValue':
      return JSON.stringify(choices.slice(0, 12).join(' or '));
  }
}
