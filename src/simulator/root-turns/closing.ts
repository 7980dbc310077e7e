const VERBATIM = String.raw`const flat = (text) => text.replace(/\s+/g, ' ').trim();
const flatTexts = documents.map(({ name, text }) => ({ name, text: flat(text) }));
// The first document of that name counts, for that is where a citation is looked up.
const isVerbatim = ({ document, text }) => {
  const source = flatTexts.find(({ name }) => name === document);
  return flat(text) !== '' && source !== undefined && source.text.includes(flat(text));
};`;

const FALLBACKS = String.raw`const lines = documents.flatMap(({ name, text }) => text.split('\n').map((line) => ({ document: name, text: line })));
const fallback = [...hits, ...lines]
  .map(({ document, text }) => ({ document, text: (chunk(text, 600)[0] ?? '').trim() }))
  .find(isVerbatim);`;

/** The program that answers: the noted sentences that fit the question best, each cited where it stands. */
export function closingProgram(): string {
  return String.raw`${VERBATIM}

const sentencesOf = ({ document, text }) =>
  text.split(/(?<=[.!?…]["”»)]?)\s+(?=["“«(]?\p{Lu})|\n/u).map((sentence) => ({ document, text: sentence.trim() }));
const sentences = new Map();
for (const sentence of [...noted(), ...hits.slice(0, 6)].flatMap(sentencesOf)) {
  if (!sentences.has(sentence.text)) sentences.set(sentence.text, { ...sentence, found: wordsIn(sentence.text) });
}

// A word that few of the sentences have says more than one that most have, and a long one more than a short one.
const candidates = [...sentences.values()];
const weights = new Map(
  words.map((word) => {
    const having = candidates.filter(({ found }) => found.includes(word)).length;
    return [word, Math.log(1 + candidates.length / (1 + having)) * Math.sqrt(word.length)];
  }),
);
const scoreOf = ({ found }) => found.reduce((sum, word) => sum + weights.get(word), 0);
const best = candidates
  .map((candidate) => ({ ...candidate, score: scoreOf(candidate) }))
  .filter((candidate) => candidate.score > 0 && isVerbatim(candidate))
  .sort((a, b) => b.score - a.score)
  .slice(0, 3);

${FALLBACKS}
const chosen = best.length > 0 ? best : [fallback ?? { document: 'context', text: 'The context is empty.' }];
answer({
  text: chosen.map(({ text }) => text).join(' '),
  citations: chosen.filter(isVerbatim).map(({ document, text }) => ({ document, quote: text })),
});`;
}

/** The program for when an answer was refused: nothing but one passage that certainly stands where it is cited. */
export function plainClosingProgram(): string {
  return `${VERBATIM}

${FALLBACKS}
answer({
  text: fallback?.text ?? 'The context is empty.',
  citations: fallback ? [{ document: fallback.document, quote: fallback.text }] : [],
});`;
}
