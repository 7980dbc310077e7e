import { gathering, type Subject } from './gathering.ts';

const VERBATIM = String.raw`const flat = (text) => text.replace(/\s+/g, ' ').trim();
const flatTexts = documents.map(({ name, text }) => ({ name, text: flat(text) }));
// The first document of that name counts, for that is where a citation is looked up.
const isVerbatim = ({ document, text }) => {
  const source = flatTexts.find(({ name }) => name === document);
  return flat(text) !== '' && source !== undefined && source.text.includes(flat(text));
};`;

const FALLBACK = String.raw`// The beginning of a passage, where no sentence is to be had.
function fallback() {
  const lines = documents.flatMap(({ name, text }) => text.split('\n').map((line) => ({ document: name, text: line })));
  const passage = [...hits, ...lines].find(isVerbatim);
  return passage ? [{ document: passage.document, text: chunk(passage.text, 600)[0] }] : [];
}`;

const ANSWER = `answer({
  text: chosen.map(({ text }) => text).join(' ') || 'The context is empty.',
  citations: chosen.map(({ document, text }) => ({ document, quote: text })),
});`;

/**
 * The program that answers: the noted sentences that fit the question best, each cited where it stands. A few sentences
 * rather than one, for the one with most of the question's words is often the one before the one that answers.
 */
export function closingProgram(): string {
  return String.raw`${VERBATIM}

const sentencesOf = ({ document, text }) =>
  text.split(/(?<=[.!?…]["”»)]?)\s+(?=["“«(]?\p{Lu})|\n/u).map((sentence) => ({ document, text: sentence.trim() }));
const candidates = new Map();
for (const sentence of [...noted(), ...hits.slice(0, 6)].flatMap(sentencesOf)) {
  if (!candidates.has(sentence.text)) candidates.set(sentence.text, { ...sentence, found: wordsIn(sentence.text) });
}

// A word that few of the sentences have says more than one that most have, and a long one more than a short one.
const weights = new Map();
for (const word of words) {
  const having = [...candidates.values()].filter(({ found }) => found.includes(word)).length;
  weights.set(word, Math.log(1 + candidates.size / (1 + having)) * Math.sqrt(word.length));
}
const weigh = (found) => found.reduce((sum, word) => sum + weights.get(word), 0);

// Short sentences are worth more than long ones with the same words, and so are those from a piece that fits as well.
const weighedPieces = pieces.map(({ text }) => ({ text, weight: weigh(wordsIn(text)) }));
function scoreOf({ text, found }) {
  const around = weighedPieces.filter((piece) => piece.text.includes(text)).map(({ weight }) => weight);
  return weigh(found) / (1 + text.length / 1000) + 0.4 * Math.max(0, ...around);
}
const [best, ...others] = [...candidates.values()]
  .filter(({ found }) => found.length > 0)
  .map((candidate) => ({ ...candidate, score: scoreOf(candidate) }))
  .sort((a, b) => b.score - a.score)
  .slice(0, 12)
  .filter(isVerbatim);

function sentenceAfter({ document, text }) {
  const source = flatTexts.find(({ name }) => name === document).text;
  const end = source.indexOf(flat(text)) + flat(text).length;
  const [rest = ''] = chunk(source.slice(end, end + 700), 600);
  return sentencesOf({ document, text: rest })[0];
}

${FALLBACK}
const chosen = best ? [best] : fallback();
for (const sentence of best ? [sentenceAfter(best), ...others] : []) {
  const known = sentence.text === '' || chosen.some(({ text }) => text === sentence.text);
  const length = chosen.reduce((sum, { text }) => sum + text.length, sentence.text.length);
  if (!known && length <= 1000 && chosen.length < 4) chosen.push(sentence);
}
${ANSWER}`;
}

/**
 * The program for when an answer was refused: nothing but one passage that certainly stands where it is cited. It needs
 * nothing that the programs before have left behind.
 */
export function plainClosingProgram(subject: Subject): string {
  return `${gathering(subject)}

${VERBATIM}

${FALLBACK}
const chosen = fallback();
${ANSWER}`;
}
