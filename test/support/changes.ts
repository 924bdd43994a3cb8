/**
 * Rows for `it.each`: the message for a text in which `from → to` was changed, as `[change, from, to, message]`. Not
 * for texts that hold an arrow themselves.
 */
export function changes(messages: Readonly<Record<string, string>>) {
  return Object.entries(messages).map(([change, message]) => {
    const [from = '', to = ''] = change.split(' → ');
    return [change, from, to, message] as const;
  });
}
