/** Text with names that stand for values: `/lists/{list_id}`. */
export type Template = readonly TemplatePart[];
export type TemplatePart =
  { readonly kind: 'text'; readonly text: string } | { readonly kind: 'name'; readonly name: string };

/** Names (and positions, as digits) from the top of a JSON answer: `bot.workspace_id`. */
export type AnswerPath = readonly string[];

export type AnswerPlace =
  | { readonly kind: 'body'; readonly path: AnswerPath }
  /** Lower-case. */
  | { readonly kind: 'header'; readonly name: string };

/** `bot.workspace_id`; an empty text is the whole answer. */
export function answerPath(text: string): AnswerPath {
  return text === '' ? [] : text.split('.');
}
