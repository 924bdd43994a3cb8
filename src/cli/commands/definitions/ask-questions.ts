import { createInterface } from 'node:readline';
import { Readable } from 'node:stream';
import type { Answers, Question } from '../../../definitions/import/answers.ts';
import { pagingWays, placeOfAnswer } from '../../../definitions/import/answers.ts';
import { printable } from '../../../telemetry/format.ts';
import type { CommandContext } from '../../command.ts';

/** Of one question: then it stays open. */
const mostAttempts = 5;

/** A person in front of a screen, who may leave any question open. */
export function askQuestions({ terminal, input, signal }: CommandContext) {
  const lines = createInterface({ input: Readable.from(input()), signal })[Symbol.asyncIterator]();
  const asked = new Set<string>();
  let isOver = false;
  const read = async (): Promise<string> => {
    const { value, done } = isOver ? { value: '', done: true } : await lines.next();
    signal.throwIfAborted();
    isOver ||= done === true;
    return isOver ? '' : String(value).trim();
  };
  return {
    /**
     * The answers with those that were given now; the same object where none was. Each question is asked once, and
     * again where `problemOf` finds the answer wrong.
     */
    ask: async (
      questions: readonly Question[],
      answers: Answers,
      problemOf: (question: Question, answers: Answers) => string | null,
    ): Promise<Answers> => {
      let found = answers;
      const fresh = questions.filter((one) => !asked.has(placeOfAnswer(one).join(' ')));
      for (const [index, question] of fresh.entries()) {
        if (isOver) break;
        asked.add(placeOfAnswer(question).join(' '));
        terminal.print(
          `Question ${index + 1} of ${fresh.length}${subjectOf(question)}: ${printable(question.why)}`,
          hintOf(question),
        );
        for (let attempt = 1; attempt <= mostAttempts; attempt += 1) {
          const text = await read();
          if (text === '') break;
          const next = withAnswer(found, question, text);
          const problem = next === null ? hintOf(question).trim() : problemOf(question, next);
          if (next !== null && problem === null) {
            found = next;
            break;
          }
          const again = attempt === mostAttempts ? ' It stays open.' : ' Again? Enter leaves it open.';
          terminal.print(`  Not "${printable(text)}": ${printable(problem ?? '')}.${again}`);
        }
      }
      return found;
    },
    [Symbol.asyncDispose]: async () => {
      await lines.return?.();
    },
  };
}

function subjectOf(question: Question): string {
  return 'entity' in question ? `, ${printable(question.entity)}` : '';
}

function hintOf(question: Question): string {
  const choices = question.choices.slice(0, 20).map(printable).join(', ');
  const nothing = 'Enter leaves it open.';
  switch (question.kind) {
    case 'key':
      return `  The fields that identify a record, with commas between, or none${choices === '' ? '' : ` (perhaps ${choices})`}. ${nothing}`;
    case 'records':
      return `  Which of them has the records (${choices})? ${nothing}`;
    case 'paging':
      return [
        '  "single" if one answer has everything. Else how it pages: "token <parameter> <place in the answer>",',
        `  "page <parameter>", "offset <parameter>" or "lastRecord <parameter>". ${nothing}`,
      ].join('\n');
    case 'server':
    case 'value':
    case 'ownValue':
      return `  ${question.name}${choices === '' ? '' : ` (${choices})`}? ${nothing}`;
  }
}

/** Null: the text is no answer to such a question. */
function withAnswer(answers: Answers, question: Question, text: string): Answers | null {
  switch (question.kind) {
    case 'server':
      return { ...answers, server: { ...answers.server, [question.name]: text } };
    case 'value':
      return { ...answers, values: { ...answers.values, [question.name]: text } };
    case 'ownValue': {
      const { values } = answers.entities[question.entity] ?? { values: {} };
      return withEntity(answers, question.entity, { values: { ...values, [question.name]: text } });
    }
    case 'records':
      return withEntity(answers, question.entity, { records: text });
    case 'paging':
      return withPaging(answers, question.entity, text);
    case 'key':
      return withEntity(answers, question.entity, {
        key: text === 'none' ? text : text.split(',').map((name) => name.trim()),
      });
  }
}

/** `token cursor meta.next`: as the file of answers has it. */
function withPaging(answers: Answers, entity: string, text: string): Answers | null {
  const [word = '', param = '', ...from] = text.split(/\s+/);
  if (word === 'single') return withEntity(answers, entity, { paging: word });
  const by = pagingWays.find((way) => way === word);
  if (by === undefined || param === '') return null;
  const place = from.length === 0 ? {} : { from: from.join(' ') };
  return withEntity(answers, entity, { paging: { by, param, ...place } });
}

function withEntity(answers: Answers, entity: string, more: Partial<Answers['entities'][string]>): Answers {
  const known = answers.entities[entity] ?? { values: {} };
  return { ...answers, entities: { ...answers.entities, [entity]: { ...known, ...more } } };
}
